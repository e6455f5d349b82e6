// Bytes to one Request at a time, under limits. Beast's parser does the syntax; this adds what it
// leaves open. Knows no connection: a fuzzer can drive it alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/http/message.h"
#include "io/http/server.h"

namespace gpuyard::http {

class RequestParser {
 public:
  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  // Ready for the next request; keeps nothing of the last.
  void reset();

  // Returns how many of `bytes` are empty lines before a request; the caller drops them. Too many
  // are refused.
  std::size_t skip_empty_lines(std::string_view bytes);

  // Returns how many of `bytes` are used; the caller presents the others again, with more behind
  // them. 0 while the parser waits for the end of a line or of the header.
  std::size_t feed(std::string_view bytes);
  // Tells the parser that the caller can hold no more bytes and feed() used none.
  void report_overflow();

  bool is_header_complete() const;
  bool is_complete() const;
  // The answer to a request that cannot be accepted; the connection is of no use after that.
  const std::optional<Response>& refusal() const;

  // The functions below are valid once the header is complete.
  bool should_keep_alive() const;
  bool is_http_1_0() const;
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;
  const Request& request() const;
  Request take();

 private:
  class Message;
  const Limits& limits_;
  std::unique_ptr<Message> message_;
};

// Bytes read and not yet used: one flat piece that grows up to a limit.

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
