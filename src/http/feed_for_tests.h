// A feed whose pieces a test puts in by hand.
#pragma once

#include <deque>
#include <string_view>

#include "http/feed.h"

namespace gpuyard::http {

class FeedByHand final : public Feed {
 public:
  Chunk next() override {
    if (waiting_.empty()) return {};
    Chunk first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }
  bool over() const override { return over_; }

  void say(std::string_view text) { say(Chunk(text)); }
  void say(Chunk chunk) {
    waiting_.push_back(std::move(chunk));
    more();
  }
  void end() {
    over_ = true;
    more();
  }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  std::deque<Chunk> waiting_;
  bool over_ = false;
};

}  // namespace gpuyard::http
