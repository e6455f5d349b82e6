// The body of a response that has no end: pieces of text that come as they happen. Knows no event
// and no connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gpuyard::http {

// One piece, ready for the wire and shared by all who listen, so that it is rendered once.
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

// What one listener gets. The session that sends it asks for the next piece when its client has
// taken the last ones: nothing is queued for a slow one, so what it missed meanwhile is the feed's
// to pass over or to repeat. Everything on the loop's thread; a feed ends with its session.
class Feed {
 public:
  virtual ~Feed() = default;

  // The next piece; nothing: not now.
  virtual Chunk next() = 0;
  // Asked when there is nothing: whether nothing will ever follow.
  virtual bool over() const { return false; }
  // Whether its body may end as bodies do. If not, the connection is broken off instead, which a
  // client that reconnects takes for a loss.
  virtual bool may_end() const { return true; }

  // By the session: whom to tell.
  void on_more(std::function<void()> wake) { wake_ = std::move(wake); }

 protected:
  // There may be a next piece, or it is over. Cheap, from anywhere on the loop's thread.
  void more() const {
    if (wake_) wake_();
  }

 private:
  std::function<void()> wake_;
};

}  // namespace gpuyard::http
