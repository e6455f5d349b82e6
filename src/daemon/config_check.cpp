#include "daemon/config_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "daemon/alert_config.h"
#include "faces/metrics/prometheus.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"

namespace gpuyard::daemon {
namespace {

Result<void> check_temperatures(const config::Config::Health& health) {
  const auto in_order = [](const auto& one) { return one.degraded <= one.unhealthy; };
  const std::string what = "the \"unhealthy\" temperature is below the \"degraded\" temperature";
  if (!in_order(health.common)) return Error{Errc::invalid, "health: " + what};
  for (const auto& [gpu, own] : health.of_gpu) {
    if (!in_order(own))
      return Error{Errc::invalid, fmt::format("health.temperatures_of {}: {}", gpu, what)};
  }
  return {};
}

Result<void> check_power_bounds(const config::Config& config) {
  const auto& [lowest, highest] = std::pair(config.control.lowest_w, config.control.highest_w);
  if (lowest == 0 || highest == 0 || lowest <= highest) return {};
  return Error{Errc::invalid, fmt::format("{}: {} W is above control.highest_w, {} W",
                                          config.location_of("control.lowest_w"), lowest, highest)};
}

// Checks the addresses of one section.
Result<void> check_addresses(const config::Config& config, const std::string& section,
                             const std::vector<std::string>& listen) {
  for (const std::string& text : listen) {
    const auto endpoint = http::parse_endpoint(text);
    if (!endpoint) return Error(endpoint.error()).in(config.location_of(section + ".listen"));
    if (endpoint->kind != http::Endpoint::Kind::tcp) {
      return Error{
          Errc::invalid,
          fmt::format("{}: expected an address and port such as 127.0.0.1:9410; got \"{}\"",
                      config.location_of(section + ".listen"), printable(text)),
          fmt::format("a Unix socket belongs in {}.socket", section == "tls" ? "server" : section)};
    }
  }
  return {};
}

// Plain TCP listens on loopback only, unless the user allows an address explicitly: strangers find
// a server that listens everywhere within the hour.
Result<void> check_plain_tcp(const config::Config& config, const std::string& section,
                             const std::vector<std::string>& listen,
                             const std::vector<std::string>& meant) {
  for (const std::string& text : listen) {
    if (http::is_loopback(http::parse_endpoint(text)->address) ||
        std::ranges::count(meant, text) > 0) {
      continue;
    }
    return Error{
        Errc::invalid,
        fmt::format("{}: \"{}\" is a network address, without encryption or authentication: {}",
                    config.location_of(section + ".listen"), text,
                    section == "zeus"
                        ? "zeusd's protocol has no TLS; use 127.0.0.1 or a Unix socket"
                        : "use tls.listen or ssh; to let anyone on the network read, also add this "
                          "address to server.insecure_read_only")};
  }
  return {};
}

Result<void> check_tls(const config::Config& config) {
  GPUYARD_TRY(check_addresses(config, "tls", config.tls.listen));
  const auto is_meant = [&](const std::string& text) {
    return std::ranges::count(config.server.listen, text) > 0;
  };
  for (const std::string& text : config.server.insecure_read_only) {
    if (is_meant(text)) continue;
    return Error{Errc::invalid, fmt::format("{}: server.listen does not contain \"{}\"",
                                            config.location_of("server.insecure_read_only"), text)};
  }
  for (const std::string& text : config.tls.revoked) {
    if (auto known = http::to_fingerprint(text); !known) {
      return Error(known.error()).in(config.location_of("tls.revoked"));
    }
  }
  if (config.tls.client_ca.empty() && !config.tls.clients.empty()) {
    return Error{
        Errc::invalid,
        fmt::format("{}: requires tls.client_ca, the authority that signs client certificates",
                    config.location_of("tls.clients"))};
  }
  return {};
}

// Checks the addresses and the socket of one server.
Result<void> check_listeners(const config::Config& config, const std::string& section,
                             const std::vector<std::string>& listen, const std::string& socket) {
  GPUYARD_TRY(check_addresses(config, section, listen));
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(socket));
  if (!address) return Error(address.error()).in(section + ".socket");
  return {};
}

Result<void> check_lease_socket(const config::Config& config) {
  const std::string socket = config::lease_socket_of(config.server);
  if (socket.empty()) return {};
  for (const auto& [name, other] :
       {std::pair("server.socket", config.server.socket), {"zeus.socket", config.zeus.socket}}) {
    if (socket != other) continue;
    return Error{Errc::invalid, fmt::format("server.lease_socket: {} is the same file", name)};
  }
  auto valid = check_listeners(config, "server", {}, socket);
  return valid ? valid : std::move(valid).error().in("server.lease_socket");
}

Result<void> check_zeus(const config::Config& config) {
  if (!config.zeus.is_enabled()) return {};
  const std::string& socket = config.zeus.socket;
  if (socket == config.server.socket) {
    return Error{Errc::invalid, "zeus.socket: server.socket is the same file"};
  }
  auto valid =
      check_listeners(config, "zeus", config.zeus.listen, socket.empty() ? "/none" : socket);
  return valid ? check_plain_tcp(config, "zeus", config.zeus.listen, {}) : valid;
}

}  // namespace

// A name without a slash is the system's library, which the loader finds.
Result<void> check_library(const std::string& path) {
  if (path.find('/') == path.npos) return {};
  auto trusted = check_trusted_by_root(path, "its code runs with the rights of the process");
  return trusted ? trusted : std::move(trusted).error().in("driver.nvml");
}

Result<void> check_config(const config::Config& config) {
  const config::Config::Server& server = config.server;
  GPUYARD_TRY(check_listeners(config, "server", server.listen, server.socket));
  GPUYARD_TRY(check_plain_tcp(config, "server", server.listen, server.insecure_read_only));
  GPUYARD_TRY(check_tls(config));
  GPUYARD_TRY(check_lease_socket(config));
  GPUYARD_TRY(check_zeus(config));
  if (auto prefix = metrics::check_prefix(config.metrics.prefix); !prefix) {
    return std::move(prefix).error().in("metrics.prefix");
  }
  GPUYARD_TRY(check_library(config.driver.nvml));
  GPUYARD_TRY(read_alert_config(config));
  GPUYARD_TRY(check_power_bounds(config));
  return check_temperatures(config.health);
}

}  // namespace gpuyard::daemon
