// A server that a request goes out to, by its name: over TLS or in plain text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
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

  // "hooks.slack.com", "127.0.0.1:9093", "[::1]:9093": as in a Host field.
  std::string text() const;

  friend bool operator==(const Origin&, const Origin&) = default;
};

// A server to which a client shows a token. Users name it by its URL.
struct HttpsEndpoint {
  Origin origin;
  std::string token = {};  // "": none

  // Always includes the port.
  std::string url() const;
};

// Resolves a host's name to its addresses within a deadline, whatever the name service does.
// Blocks: never called on the loop's thread.

// The most look-ups at a time in the process: four for each sink that there may be, or one for each
// host that a view of many asks at once. Each is a thread that cannot be interrupted. One more is
// refused.
inline constexpr std::size_t kMaxLookups = 64;

// Returns at least one address, in the order in which to try them. Errc::timed_out, or unavailable.
Result<std::vector<Endpoint>> resolve(const std::string& host, std::uint16_t port,
                                      TimePoint deadline);

// Asks a name service; may block for any time.
using Lookup =
    std::function<Result<std::vector<Endpoint>>(const std::string& host, std::uint16_t port)>;
// The same with another name service.
Result<std::vector<Endpoint>> resolve_with(const Lookup&, const std::string& host,
                                           std::uint16_t port, TimePoint deadline);

}  // namespace gpuyard::http
