#include "daemon/descriptor_budget.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "io/http/peer.h"

namespace gpuyard::daemon {
namespace {

constexpr rlim_t kConnectionDivisor = 2;  // divisors of the descriptors
constexpr rlim_t kHandshakeDivisor = 4;   // of those for connections, where TLS is spoken
constexpr rlim_t kClaimDivisor = 4;
constexpr rlim_t kDescriptorsPerClaim = 2;   // its process, and what watches the process
constexpr std::size_t kMinConnections = 16;  // connections of one listener, if descriptors allow

// Returns the number of listeners, with the Unix sockets of the API, of leases and of Zeus. Before
// Linux 6.5 a Unix socket counts twice, because each connection keeps a descriptor of its peer too.
std::size_t listener_weight(const config::Config& config) {
  constexpr std::size_t kUnixSockets = 3;
  const std::size_t weight = http::has_peer_pidfd() ? 1 : 2;
  return config.server.listen.size() + config.tls.listen.size() + config.zeus.listen.size() +
         kUnixSockets * weight;
}

}  // namespace

rlim_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return RLIM_INFINITY;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

rlim_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

Result<void> check_descriptors(rlim_t descriptors) {
  if (descriptors >= kMinDescriptors) return {};
  return Error{Errc::invalid,
               fmt::format("the daemon may open only {} files and connections and needs at least "
                           "{}; raise `ulimit -n`, or LimitNOFILE in its unit",
                           descriptors, kMinDescriptors)};
}

http::Limits limits_of(const config::Config& config, rlim_t descriptors) {
  http::Limits limits;
  limits.connections_per_group = static_cast<std::size_t>(config.shares.connections);
  limits.streams_per_group = static_cast<std::size_t>(config.shares.streams);
  rlim_t for_connections = descriptors / kConnectionDivisor;
  if (!config.tls.listen.empty()) {
    limits.handshakes =
        std::min<std::size_t>(limits.handshakes, for_connections / kHandshakeDivisor);
    for_connections -= limits.handshakes;
  }
  const rlim_t each = for_connections / listener_weight(config);
  const rlim_t available = each > limits.reserved_slots ? each - limits.reserved_slots : 0;
  // Limited so that the connections of all listeners leave root a descriptor.
  const rlim_t min_connections = std::clamp<rlim_t>(each, 1, kMinConnections);
  limits.connections = std::clamp<std::size_t>(available, min_connections, limits.connections);
  limits.streams = std::min(limits.streams, limits.connections * 2 / 3);
  return limits;
}

std::size_t max_waiting_claims(rlim_t descriptors) {
  return std::min<std::size_t>(descriptors / kClaimDivisor / kDescriptorsPerClaim,
                               limits::kMaxWaitingClaims);
}

}  // namespace gpuyard::daemon
