#include "io/http/origin.h"

#include <fmt/format.h>

namespace gpuyard::http {

std::string Origin::text() const {
  const bool six = host.find(':') != host.npos;
  std::string name = six ? fmt::format("[{}]", host) : host;
  const std::uint16_t default_port = tls ? 443 : 80;
  return port == default_port ? name : fmt::format("{}:{}", name, port);
}

std::string HttpsEndpoint::url() const {
  return "https://" + Endpoint::tcp(origin.host, origin.port).text();
}

}  // namespace gpuyard::http
