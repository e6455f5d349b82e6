// One unary gRPC call with an empty request, as the client's end of HTTP/2: bytes in, bytes out.
// Knows no socket. The only header over nghttp2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/kubelet/grpc_response.h"

struct nghttp2_session;

namespace gpuyard::kubelet {

// The largest message of a response; the kubelet's own clients have the same limit.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20U;

// Thread: any, one at a time. The caller sends what take_output() returns before it reads more, so
// that a server that reads nothing cannot make the output grow.
class UnaryCall {
 public:
  // `method`: "/v1.PodResourcesLister/List". The request has no deadline: the server would reset
  // the stream at the moment when the caller gives up, and that looks like a fault. Closing the
  // connection ends the call as well.
  explicit UnaryCall(std::string_view method);
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;
  ~UnaryCall();

  // Returns the bytes to send now; "" if there are none.
  std::string take_output();
  void receive(std::string_view bytes);
  // The server has closed the connection.
  void receive_end();

  bool is_done() const { return response_.is_done(); }
  // Errc::unavailable: reset, refused or closed by the server. Errc::invalid: no HTTP/2, or no
  // gRPC. Errc::internal: too large. REQUIRES: is_done().
  Result<GrpcReply> take_result() && { return std::move(response_).take_result(); }

 private:
  struct EndSession {
    void operator()(nghttp2_session*) const;
  };

  void submit_settings();
  void submit_request(std::string_view method);

  GrpcResponse response_;  // what nghttp2 calls back with
  std::size_t unsent_request_bytes_;
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

}  // namespace gpuyard::kubelet
