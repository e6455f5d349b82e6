// Bytes read and not yet used: one flat piece that grows up to a limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace gpuyard::http {

class ReadBuffer {
 public:
  explicit ReadBuffer(std::size_t limit) : limit_(limit) {}

  bool empty() const { return begin_ == end_; }
  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t count) {
    begin_ += count;
    if (empty()) begin_ = end_ = 0;
  }

  // Space behind the bytes, valid until the next call; empty when the limit is reached.
  std::span<char> prepare() {
    if (bytes_.size() - end_ < kMinReadBytes) make_space();
    return {bytes_.data() + end_, bytes_.size() - end_};
  }
  void commit(std::size_t count) { end_ += count; }

 private:
  static constexpr std::size_t kInitialBytes = 2048;
  static constexpr std::size_t kMinReadBytes = 512;  // a read into less space is not worth it

  void make_space() {
    if (begin_ > 0) std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (bytes_.size() - end_ >= kMinReadBytes) return;
    bytes_.resize(std::min(limit_, std::max(kInitialBytes, bytes_.size() * 2)));
  }

  std::size_t limit_;
  std::vector<char> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace gpuyard::http
