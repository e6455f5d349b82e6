// Bytes to one Request at a time, under limits. Beast's parser does the syntax; this adds what it
// leaves open. Knows no connection: a fuzzer can drive it alone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "http/limits.h"
#include "http/message.h"

namespace gpuyard::http {

class RequestParser {
 public:
  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  // Ready for the next request; forgets everything about the last.
  void reset();

  // How many of `bytes` are empty lines in front of a request, which are no part of it: the caller
  // drops them. Too many of them are refused.
  std::size_t skip_empty_lines(std::string_view bytes);

  // Returns how many of `bytes` are used up; the caller presents the others again, with more behind
  // them. None used when the parser holds out for the end of a line or of the header.
  std::size_t feed(std::string_view bytes);
  // The caller can hold no more bytes and feed() used none.
  void overflow();

  bool header_complete() const;
  bool complete() const;
  // How to answer what cannot be accepted; the connection is of no use after that.
  const std::optional<Response>& refusal() const;

  // The rest holds once the header is complete.
  bool keep_alive() const;
  bool http_1_0() const;
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
