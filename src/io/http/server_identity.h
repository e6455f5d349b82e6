// A server's identity over TLS: its certificate and key, and the roots that it trusts for clients.
// Knows no socket. Includes no OpenSSL, so that the wiring can include it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/http/certificate.h"

using SSL_CTX = struct ssl_ctx_st;

namespace gpuyard::http {

// The certificate that a server shows its clients, and the roots that it trusts for theirs.
// Connections keep the identity that they began with.
struct ServerIdentity {
  CertificateFacts facts;
  std::vector<std::string> warnings;               // sentences for the log
  bool requests_certificates = false;              // of clients
  std::shared_ptr<SSL_CTX> context;                // set up once, only read afterwards
  std::shared_ptr<const std::string> ticket_keys;  // of sessions that may be resumed; secret
  WallTime tickets_since{};                        // when these keys were created
};

struct IdentityFiles {
  std::string certificate;     // PEM: the server's, then those between it and a trusted root
  std::string key;             // PEM, without a passphrase, not readable by everybody
  std::string client_ca = {};  // PEM: whose certificates clients may show; "" asks for none
  // Whether gpuyard created the certificate. If so it is used even before its notBefore: this
  // machine's clock was wrong then or is wrong now.
  bool is_generated = false;
};

// Ticket keys are replaced after this time, so that a leaked key decrypts no older session. A
// ticket of an old key then leads to a full handshake.
inline constexpr std::chrono::hours kTicketKeyLifetime{24};

// Blocks for the files. Errc::invalid names the file, what is wrong with it and what to do. With
// the `former` identity, clients can resume its sessions for kTicketKeyLifetime.
Result<std::shared_ptr<const ServerIdentity>> load_identity(
    const IdentityFiles&, WallTime now,
    const std::shared_ptr<const ServerIdentity>& former = nullptr);

// Holds the identity for new connections; null: there is none yet, and no listener may be open.
// Thread: io.
class IdentitySource {
 public:
  IdentitySource() = default;
  explicit IdentitySource(std::shared_ptr<const ServerIdentity> identity)
      : identity_(std::move(identity)) {}

  // From now on; established connections keep theirs.
  void set_identity(std::shared_ptr<const ServerIdentity> identity) {
    identity_ = std::move(identity);
  }
  const std::shared_ptr<const ServerIdentity>& identity() const { return identity_; }

 private:
  std::shared_ptr<const ServerIdentity> identity_;
};

}  // namespace gpuyard::http
