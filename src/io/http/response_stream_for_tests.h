// A response stream whose chunks a test puts in by hand.
#pragma once

#include <deque>
#include <string_view>

#include "io/http/response_stream.h"

namespace gpuyard::http {

class ManualStream final : public ResponseStream {
 public:
  Chunk next() override {
    if (waiting_.empty()) return {};
    Chunk first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }
  bool is_over() const override { return over_; }
  bool can_end() const override { return may_end_; }

  void say(std::string_view text) { say(Chunk(text)); }
  void say(Chunk chunk) {
    waiting_.push_back(std::move(chunk));
    notify_more();
  }
  void end() {
    over_ = true;
    notify_more();
  }
  void may_end(bool may) { may_end_ = may; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  std::deque<Chunk> waiting_;
  bool over_ = false;
  bool may_end_ = true;
};

}  // namespace gpuyard::http
