#include "daemon/descriptor_budget.h"

#include <algorithm>

#include "http/peer_process.h"
#include "lease/leases.h"

namespace gpuyard::daemon {
namespace {

constexpr rlim_t kForConnections = 2;  // one of so many
constexpr rlim_t kForClaims = 4;
constexpr rlim_t kOfClaim = 2;       // its process, and what watches that
constexpr std::size_t kFewest = 16;  // connections at one listener, whatever is left

// Where the daemon listens: the socket of the API, the one for leases and that of Zeus among them.
// Before Linux 6.5 each connection to those keeps a descriptor of its peer too.
std::size_t doors_of(const config::Config& config) {
  constexpr std::size_t kUnixSockets = 3;
  const std::size_t weight = http::knows_peer_process() ? 1 : 2;
  return config.server.listen.size() + config.zeus.listen.size() + kUnixSockets * weight;
}

}  // namespace

rlim_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

http::Limits limits_of(const config::Config& config, rlim_t descriptors) {
  http::Limits limits;
  limits.connections_of_one = static_cast<std::size_t>(config.shares.connections);
  limits.streams_of_one = static_cast<std::size_t>(config.shares.streams);
  const rlim_t each = descriptors / kForConnections / doors_of(config);
  const rlim_t room = each > limits.kept_places ? each - limits.kept_places : 0;
  limits.connections = std::clamp<std::size_t>(room, kFewest, limits.connections);
  limits.streams = std::min(limits.streams, limits.connections * 2 / 3);
  return limits;
}

std::size_t most_waiting_claims(rlim_t descriptors) {
  return std::min<std::size_t>(descriptors / kForClaims / kOfClaim, lease::Leases::kMostWaiting);
}

}  // namespace gpuyard::daemon
