// The response of a unary gRPC call, assembled from what HTTP/2 brings: headers, data, trailers.
// Knows no frame and no socket.
//
// The protocol: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::kubelet {

// The answer of the server: it has carried the call out if `status` is 0, else refused it.
struct GrpcReply {
  int status = 0;
  std::string status_message = {};  // text of the server; for people, by way of printable()
  std::string message = {};         // empty if refused
};

// Thread: any, one at a time.
//
//   headers -> data ... -> trailers   end() gives the reply
//   trailers alone                    the same, of a refusal
//   anything else                     malformed: Errc::invalid
class GrpcResponse {
 public:
  // A longer message ends the call with Errc::internal as soon as its length is known.
  explicit GrpcResponse(std::size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  // A block of headers begins: the first, or the trailers.
  void begin_headers() { status_.reset(); }
  void add_header(std::string_view name, std::string_view value);
  void add_data(std::string_view bytes);
  // The server has ended its stream.
  void end();
  // Ends the call with an error, unless it has ended before.
  void fail(Errc, std::string_view message, std::string_view cause = {});
  void fail_as_malformed(std::string_view cause);

  bool is_done() const { return result_.has_value(); }
  // REQUIRES: is_done().
  Result<GrpcReply> take_result() && { return *std::move(result_); }

 private:
  bool check_head();
  bool is_message_complete() const;

  std::size_t max_message_bytes_;
  std::string http_status_;
  std::string content_type_;
  std::optional<std::string> status_;  // of the last block of headers, if nothing followed it
  std::string status_message_;
  std::string body_;  // the message behind its prefix
  std::optional<Result<GrpcReply>> result_;
};

// Returns "UNAVAILABLE (14)".
std::string grpc_status_text(int status);

}  // namespace gpuyard::kubelet
