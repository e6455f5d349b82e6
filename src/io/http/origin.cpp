#include "io/http/origin.h"

#include <fmt/format.h>

#include "base/text.h"

namespace gpuyard::http {

std::string Origin::text() const {
  const bool six = host.find(':') != host.npos;
  std::string name = six ? fmt::format("[{}]", host) : host;
  const std::uint16_t default_port = tls ? 443 : 80;
  return port == default_port ? name : fmt::format("{}:{}", name, port);
}

bool read_authority(std::string_view text, Origin& origin) {
  std::size_t host_end = text.rfind(':');
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == text.npos) return false;
    origin.host = text.substr(1, bracket - 1);
    host_end = bracket + 1;
  } else {
    origin.host = text.substr(0, host_end);
    if (origin.host.find(':') != text.npos) return false;
  }
  if (origin.host.empty() || origin.host.find_first_of("[]\\@") != text.npos) return false;
  if (host_end >= text.size()) return true;
  if (text[host_end] != ':') return false;
  origin.port = parse_number<std::uint16_t>(text.substr(host_end + 1)).value_or(0);
  return origin.port != 0;
}

std::string HttpsEndpoint::url() const {
  return "https://" + Endpoint::tcp(origin.host, origin.port).text();
}

}  // namespace gpuyard::http
