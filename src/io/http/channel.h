// The newest piece of something that many listeners follow: rendered once for all of them. Lives on
// the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "http/feed.h"

namespace gpuyard::http {

class ChannelsFeed;

class Channel {
 public:
  // Renders a piece for who did not hear so many before it.
  using Render = std::function<Chunk(std::uint64_t skipped)>;

  // Takes the place of the piece before. Who waits is told.
  void put(Render render);

 private:
  friend ChannelsFeed;
  struct Waiting {
    ChannelsFeed* feed;
    std::size_t ear;
  };

  Chunk piece(std::uint64_t skipped);

  Render render_;
  std::uint64_t number_ = 0;                               // of the newest
  std::vector<std::pair<std::uint64_t, Chunk>> rendered_;  // the newest, by how many were skipped
  std::vector<Waiting> waiting_;
};

// One listener of several channels, which are told in turn, of each the newest.
class ChannelsFeed final : public Feed {
 public:
  ChannelsFeed(std::vector<std::shared_ptr<Channel>> channels, bool may_end);
  ~ChannelsFeed() override;
  ChannelsFeed(const ChannelsFeed&) = delete;
  ChannelsFeed& operator=(const ChannelsFeed&) = delete;

  Chunk next() override;
  bool may_end() const override { return may_end_; }

 private:
  friend Channel;
  struct Ear {
    std::shared_ptr<Channel> channel;
    std::uint64_t heard = 0;
    bool waits = false;
  };

  void wait_for_all();
  void told(std::size_t ear);

  std::vector<Ear> ears_;
  std::size_t turn_ = 0;  // whose turn it is, so that none is starved by those before it
  const bool may_end_;
};

// Channels by what they are of, each for as long as somebody listens.
template <class Key>
class Channels {
 public:
  // `begin` is called with one that is new; what it returns lives as long.
  template <class Begin>
  std::shared_ptr<Channel> get(const Key& key, Begin&& begin) {
    std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
    auto& known = all_[key];
    auto kept = known.lock();
    if (!kept) {
      kept = std::make_shared<Kept>();
      kept->source = begin(kept->channel);
      known = kept;
    }
    return {kept, &kept->channel};
  }

 private:
  struct Kept {
    Channel channel;
    Subscription source;
  };
  std::map<Key, std::weak_ptr<Kept>> all_;
};

}  // namespace gpuyard::http
