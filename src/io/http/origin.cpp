#include "http/origin.h"

#include <fmt/format.h>

namespace gpuyard::http {

std::string Origin::text() const {
  const bool six = host.find(':') != host.npos;
  std::string name = six ? fmt::format("[{}]", host) : host;
  const std::uint16_t usual = tls ? 443 : 80;
  return port == usual ? name : fmt::format("{}:{}", name, port);
}

}  // namespace gpuyard::http
