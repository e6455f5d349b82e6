// A blocking client's end of a connection: every step has a deadline, every error names the
// endpoint. Inner header; knows no HTTP.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/endpoint.h"
#include "http/origin.h"
#include "http/tls_client.h"

namespace gpuyard::http {

class ClientSocket {
 public:
  // Connects. Errc::unavailable if nobody listens, denied if the socket's permissions forbid it.
  static Result<ClientSocket> connect(const Endpoint&, TimePoint deadline);
  // Resolves its name, connects to one of its addresses, and agrees on TLS where it is to be. Errc
  // also denied if the server is not who it should be, invalid if nobody can be trusted.
  static Result<ClientSocket> connect(const Origin&, TimePoint deadline);

  Result<void> send(std::string_view bytes, TimePoint deadline);
  // What has come, at least one byte; 0: nothing more will. Errc::timed_out at the deadline.
  Result<std::size_t> receive(std::span<char> space, TimePoint deadline);

  // "the answer of ... is unusable: `why`"
  Error broken(std::string_view why) const;

 private:
  explicit ClientSocket(std::string where) : where_(std::move(where)) {}

  Result<void> open(const Endpoint&, TimePoint deadline);
  Result<void> finish_connecting(TimePoint deadline);
  Result<void> start_tls(const Origin&, TimePoint deadline);
  Result<void> send_raw(std::string_view bytes, TimePoint deadline);
  Result<std::size_t> receive_raw(std::span<char> space, TimePoint deadline);
  Result<void> feed_tls(TimePoint deadline);
  Result<void> wait(short events, TimePoint deadline);
  Error fault(int code) const;

  std::string where_;
  UniqueFd socket_;
  std::unique_ptr<TlsClient> tls_;  // none: in plain text
};

}  // namespace gpuyard::http
