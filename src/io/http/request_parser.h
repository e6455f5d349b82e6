// Bytes to one Request at a time, under limits. Beast's parser does the syntax; this adds what it
// leaves open. Knows no connection: a fuzzer can drive it alone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "io/http/limits.h"
#include "io/http/message.h"

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

}  // namespace gpuyard::http
