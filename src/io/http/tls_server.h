// A server's end of TLS for one connection, from bytes to bytes: the twin of TlsClient. Knows no
// socket and no loop, so that a test or a fuzzer can drive it. Inner header; includes no OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/http/certificate.h"
#include "io/http/server_identity.h"

namespace gpuyard::http {

// A client that has sent this much without a handshake is refused. The largest part is the chain of
// a client's certificate.
inline constexpr std::size_t kMaxHandshakeBytes = std::size_t{64} * 1024;

// Holds what the caller has fed and OpenSSL has not taken, which is at most one record (16 KiB)
// and what one feed() brought; and what was written since the last take(). An idle connection
// holds neither. Errors are for the log: a stranger made them.
class TlsServer {
 public:
  explicit TlsServer(const ServerIdentity&);
  TlsServer(TlsServer&&) noexcept;
  TlsServer& operator=(TlsServer&&) noexcept;
  ~TlsServer();

  // Takes bytes that came from the client.
  void feed(std::string_view bytes);
  // Returns the bytes to send to the client; also after an error, which they tell it.
  std::string take();
  bool has_to_send() const;

  // Takes the next step: the only call that may cost a signature. True: done; false: feed it more.
  Result<bool> handshake();
  // After the handshake.
  Result<void> encrypt(std::string_view bytes);
  // Returns how many bytes of the client's it put into `space`: 0 if the client said that these
  // were all, nothing if it must be fed more.
  Result<std::optional<std::size_t>> decrypt(std::span<char> space);
  // Tells the client that nothing follows.
  void send_close_notify();

  // The client's certificate, which somebody that the identity trusts has signed; empty if it
  // showed none.
  std::optional<CertificateFacts> client_certificate() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace gpuyard::http
