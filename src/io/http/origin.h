// A server that a request goes out to, by its name: over TLS or in plain text.
#pragma once

#include <cstdint>
#include <string>

namespace gpuyard::http {

struct Origin {
  bool tls = true;
  std::string host;  // a name, or a literal address without brackets
  std::uint16_t port = 443;
  std::string ca_file = {};  // PEM, trusted besides the system's; tls only

  // "hooks.slack.com", "127.0.0.1:9093", "[::1]:9093": as in a Host field.
  std::string text() const;

  friend bool operator==(const Origin&, const Origin&) = default;
};

}  // namespace gpuyard::http
