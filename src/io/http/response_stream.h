// The body of a response that has no end: chunks of text that come as they happen. Knows no event
// and no connection.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.h"

namespace gpuyard::http {

// One chunk, ready for the wire and shared by all clients, so that it is rendered once.
class Chunk {
 public:
  Chunk() = default;                      // nothing
  explicit Chunk(std::string_view text);  // "" is nothing, too: an empty chunk would end the body

  explicit operator bool() const { return framed_ != nullptr; }
  std::string_view text() const;
  std::string_view framed() const;  // for chunked transfer coding

 private:
  std::shared_ptr<const std::string> framed_;
};

// The chunks for one client. The session that sends them asks for the next chunk when its client
// has taken the last ones. Nothing is queued for a slow client: the stream passes over or repeats
// what that client missed. Thread: io. A stream ends with its session.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;

  // The next chunk; an empty one if there is none now.
  virtual Chunk next() = 0;
  // Whether no chunk will ever follow. Called when next() has returned none.
  virtual bool is_over() const { return false; }
  // Whether the body may end as bodies do. If not, the connection is broken off instead, which a
  // client that reconnects takes for a loss.
  virtual bool can_end() const { return true; }

  // Called by the session: `on_more` runs at each notify_more().
  void set_on_more(std::function<void()> on_more) { on_more_ = std::move(on_more); }

 protected:
  // Tells the session that there may be a next chunk, or that the stream is over. Cheap, from
  // anywhere on the loop's thread.
  void notify_more() const {
    if (on_more_) on_more_();
  }

 private:
  std::function<void()> on_more_;
};

class ChannelStream;

// The newest chunk of something that many clients follow: rendered once for all of them.
// Thread: io.
class Channel {
 public:
  // Renders a chunk for a client that missed the `skipped` chunks before it.
  using Render = std::function<Chunk(std::uint64_t skipped)>;

  // Replaces the chunk before, and notifies the streams that wait.
  void publish(Render render);

 private:
  friend ChannelStream;
  struct Waiter {
    ChannelStream* stream;
    std::size_t cursor;
  };

  Chunk render_chunk(std::uint64_t skipped);

  Render render_;
  std::uint64_t number_ = 0;                               // of the newest
  std::vector<std::pair<std::uint64_t, Chunk>> rendered_;  // the newest, by how many were skipped
  std::vector<Waiter> waiters_;
};

// A stream of several channels. It takes them in turn, and of each the newest chunk.
class ChannelStream final : public ResponseStream {
 public:
  ChannelStream(std::vector<std::shared_ptr<Channel>> channels, bool may_end);
  ~ChannelStream() override;
  ChannelStream(const ChannelStream&) = delete;
  ChannelStream& operator=(const ChannelStream&) = delete;

  Chunk next() override;
  bool can_end() const override { return can_end_; }

 private:
  friend Channel;
  struct Cursor {
    std::shared_ptr<Channel> channel;
    std::uint64_t position = 0;
    bool waiting = false;
  };

  void wait_for_all();
  void on_chunk(std::size_t index);

  std::vector<Cursor> cursors_;
  std::size_t turn_ = 0;  // the channel to read next, so that none is starved by those before it
  const bool can_end_;
};

// Channels by key. Each lives for as long as it has a stream.
template <class Key>
class ChannelMap {
 public:
  // Returns the key's channel. `begin` is called with a new one; what it returns lives as long as
  // the channel.
  template <class Begin>
  std::shared_ptr<Channel> get(const Key& key, Begin&& begin) {
    std::erase_if(channels_, [](const auto& one) { return one.second.expired(); });
    auto& known = channels_[key];
    auto entry = known.lock();
    if (!entry) {
      entry = std::make_shared<Entry>();
      entry->source = begin(entry->channel);
      known = entry;
    }
    return {entry, &entry->channel};
  }

 private:
  struct Entry {
    Channel channel;
    Subscription source;
  };
  std::map<Key, std::weak_ptr<Entry>> channels_;
};

}  // namespace gpuyard::http
