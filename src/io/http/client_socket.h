// A blocking client's end of a connection: every step has a deadline, every error names the
// endpoint. Inner header; knows no HTTP.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"
#include "io/http/origin.h"
#include "io/http/tls_client.h"
#include "io/http/tunnel.h"

namespace gpuyard::http {

// Thread: any, one at a time; every call blocks until its deadline at most.
class ClientSocket {
 public:
  // Connects. Errc::unavailable if nobody listens, denied if the socket's permissions forbid it. A
  // tunnel has a deadline of its own, for a login.
  // `from`: a name of our own end, without a file, by which the server of a Unix socket knows it.
  static Result<ClientSocket> connect(const Endpoint&, TimePoint deadline,
                                      std::string_view from = {});
  // Resolves the origin's name, connects to one of its addresses, and agrees on TLS if the origin
  // has it. Where the origin has a proxy, connects to that instead, and has it pass TLS on. Errc
  // also denied if the server is not the one that was meant, invalid if there are no certificates
  // to trust.
  static Result<ClientSocket> connect(const Origin&, TimePoint deadline);
  // Connects, shakes hands with any server, and disconnects.
  static Result<PresentedCertificate> fetch_certificate(const Origin&, TimePoint deadline);
  // Continues on an open connection.
  ClientSocket(const Endpoint& endpoint, std::unique_ptr<TunnelConnection> connection)
      : peer_name_(endpoint.text()), tunnel_(std::move(connection)) {}

  Result<void> send(std::string_view bytes, TimePoint deadline);
  // Waits for at least one byte and returns how many came; 0: no more will come. Errc::timed_out at
  // the deadline.
  Result<std::size_t> receive(std::span<char> space, TimePoint deadline);

  // "the answer of ... is unusable: `why`", or what the tunnel says of it.
  Error invalid_response_error(std::string_view why) const;

  // The socket, which the caller takes away.
  UniqueFd release_socket() { return std::move(socket_); }
  // The tunnel's connection, which the caller takes away; null without a tunnel.
  std::unique_ptr<TunnelConnection> release_tunnel() { return std::move(tunnel_); }

 private:
  explicit ClientSocket(std::string where) : peer_name_(std::move(where)) {}

  Result<void> open(const Endpoint&, TimePoint deadline, std::string_view from = {});
  Result<void> finish_connecting(TimePoint deadline);
  static Result<ClientSocket> connect_plain(const Origin&, TimePoint deadline);
  // Has the proxy at the other end pass everything on to the origin.
  Result<void> connect_through_proxy(const Origin&, TimePoint deadline);
  Result<void> start_tls(Result<std::unique_ptr<TlsClient>>, TimePoint deadline);
  Result<void> send_raw(std::string_view bytes, TimePoint deadline);
  Result<std::size_t> receive_raw(std::span<char> space, TimePoint deadline);
  Result<void> feed_tls(TimePoint deadline);
  Result<void> wait(short events, TimePoint deadline);
  Error connect_error(int code) const;
  int descriptor() const { return tunnel_ != nullptr ? tunnel_->descriptor() : socket_.get(); }

  std::string peer_name_;
  UniqueFd socket_;
  std::unique_ptr<TunnelConnection> tunnel_;  // null: the socket is our own
  std::unique_ptr<TlsClient> tls_;            // null: in plain text
};

}  // namespace gpuyard::http
