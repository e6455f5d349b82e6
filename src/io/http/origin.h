// A server that a request goes out to, by its name: over TLS or in plain text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/http/endpoint.h"

namespace gpuyard::http {

// A proxy that speaks HTTP in plain text. It passes TLS on unread.
struct Proxy {
  std::string host;
  std::uint16_t port = 80;
  std::string authorization = {};  // the value of Proxy-Authorization; "": none is sent

  friend bool operator==(const Proxy&, const Proxy&) = default;
};

struct Origin {
  bool tls = true;
  std::string host;  // a name, or a literal address without brackets
  std::uint16_t port = 443;
  std::string ca_file = {};  // PEM, trusted besides the system's; tls only
  // The server's public key, "sha256//...", as CertificateFacts have it; tls only. Where it is set
  // it alone decides: nobody asks who signed the certificate, for whom, and until when.
  std::string pin = {};
  std::optional<Proxy> proxy = {};  // the way to it; none: directly
  // PEM text. Where it is set, even to "", these certificates alone are trusted: neither the
  // system's nor ca_file; tls only. A certificate here need not be self-signed.
  std::optional<std::string> ca_pem = {};

  // "hooks.slack.com", "127.0.0.1:9093", "[::1]:9093": as in a Host field.
  std::string text() const;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// Reads "host", "host:8080" or "[::1]:8080" into host and port; without a port, the origin's stays.
// False for anything else.
bool read_authority(std::string_view text, Origin&);

// A server to which a client shows a token. Users name it by its URL.
struct HttpsEndpoint {
  Origin origin;
  std::string token = {};  // "": none

  // Always includes the port.
  std::string url() const;
};

}  // namespace gpuyard::http
