#include "daemon/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "core/lease/lease_manager.h"
#include "core/processes/users.h"
#include "daemon/config_reloader.h"
#include "daemon/confinement.h"
#include "daemon/daemon.h"
#include "faces/metrics/prometheus.h"
#include "io/http/certificate.h"
#include "io/http/endpoint.h"
#include "io/http/peer.h"

namespace gpuyard::daemon {
namespace {

constexpr unsigned kPrivateDirectoryMode = 0700;
constexpr const char* kPackageUser = "_gpuyard";

// When a terminal is closed, its processes lose it and get SIGHUP.
bool has_terminal() {
  return UniqueFd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)).get() >= 0;
}

// Each connection is a descriptor; the usual soft limit of 1024 is a habit of select(). Returns the
// limit before, which is what a driver is used to.
rlim_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return RLIM_INFINITY;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}

}  // namespace

Result<void> make_daemon_directory(const std::string& directory, unsigned mode,
                                   const Environment& environment) {
  if (is_in_fallback_directory(environment, directory)) {
    if (auto own = make_private_directory(fallback_directory(environment)); !own) {
      Error error = std::move(own).error();
      error.message += "; set XDG_RUNTIME_DIR, or choose other paths with --socket and --state";
      return error;
    }
  }
  return make_directories(directory, mode);
}

Result<void> check_trusted_path(const std::string& path, std::string_view why) {
  std::vector<uid_t> owners = {0, ::geteuid()};
  auto trusted = check_trusted_by(owners, path, why);
  if (trusted) return trusted;
  const auto packaged = processes::look_up_uid(kPackageUser);
  if (!packaged) return trusted;
  owners.push_back(*packaged);
  return check_trusted_by(owners, path, why);
}

Result<std::string> listen_on_address(http::Server& server, const std::string& address) {
  const auto endpoint = http::parse_endpoint(address);
  if (!endpoint) return endpoint.error();
  const auto bound = server.listen_tcp(endpoint->address, endpoint->port);
  if (!bound) return bound.error();
  return "http://" + http::Endpoint::tcp(bound->address, bound->port).text();
}

Result<std::string> listen_on_socket(http::Server& server, const std::string& socket,
                                     std::string_view directory) {
  auto made =
      make_daemon_directory(parent_directory(socket), kPublicDirectoryMode, Environment::current());
  if (made) made = check_trusted_path(parent_directory(socket), "clients trust the socket in it");
  if (!made) return std::move(made).error().in(directory);
  if (auto done = server.listen_unix(socket); !done) return std::move(done).error();
  return socket;
}

Result<UniqueFd> lock_state(const std::string& directory) {
  const auto environment = Environment::current();
  if (auto made = make_daemon_directory(directory, kPrivateDirectoryMode, environment); !made) {
    return std::move(made).error().in("the state directory");
  }
  if (auto own = check_trusted_path(directory, "it has tokens and leases"); !own) {
    return std::move(own).error().in("the state directory");
  }
  auto lock = lock_file(directory + "/lock");
  if (!lock && lock.error().code == Errc::conflict) {
    const auto pid = read_file(directory + "/lock", 64);
    return Error{Errc::conflict,
                 fmt::format("another gpuyard{} is already running with the state directory {}; "
                             "stop it, or use a different --state and --socket",
                             pid && !pid->empty() ? " (PID " + *pid + ")" : "", directory)};
  }
  if (!lock && lock.error().code == Errc::denied) {
    return Error{
        Errc::denied, "permission denied: state directory " + directory, lock.error().text(),
        fmt::format("sudo chown --reference={0} {0}/lock {0}/*.db*  # if root ran the daemon "
                    "here",
                    quote_shell_word(directory))};
  }
  if (!lock) return lock;
  // The pid is for the error of another daemon. On a full disk that one must do without it.
  const std::string pid = std::to_string(::getpid());
  const bool written =
      ::ftruncate(lock->get(), 0) == 0 && ::pwrite(lock->get(), pid.data(), pid.size(), 0) > 0;
  if (!written)
    log::warning("the PID of this process could not be written to {}/lock: {}", directory,
                 std::strerror(errno));
  return lock;
}

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
  if (auto valid = check_addresses(config, "tls", config.tls.listen); !valid) return valid;
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
  if (auto valid = check_addresses(config, section, listen); !valid) return valid;
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
  auto valid = check_listeners(config, "server", server.listen, server.socket);
  if (valid) valid = check_plain_tcp(config, "server", server.listen, server.insecure_read_only);
  if (valid) valid = check_tls(config);
  if (!valid) return valid;
  if (valid = check_lease_socket(config); !valid) return valid;
  if (valid = check_zeus(config); !valid) return valid;
  if (auto prefix = metrics::check_prefix(config.metrics.prefix); !prefix) {
    return std::move(prefix).error().in("metrics.prefix");
  }
  if (auto library = check_library(config.driver.nvml); !library) return library;
  if (auto alerts = read_alert_config(config); !alerts) return std::move(alerts).error();
  if (auto bounds = check_power_bounds(config); !bounds) return bounds;
  return check_temperatures(config.health);
}

Result<void> serve(const ServeOptions& options) {
  if (auto valid = check_config(options.config); !valid) return valid;
  const rlim_t initial_descriptors = raise_descriptor_limit();
  if (auto enough = check_descriptors(descriptor_limit()); !enough) return enough;
  // SIGXFSZ: a write over the file size limit fails as it does on a full disk.
  for (const int meaningless : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGXFSZ}) {
    ::signal(meaningless, SIG_IGN);
  }

  std::vector<std::string> lacking = confine(options.config, options.files);

  http::IoLoop loop;
  auto alerts = read_alert_config(options.config);
  if (!alerts) return std::move(alerts).error();
  Daemon instance(loop, options, *std::move(alerts), initial_descriptors);
  instance.set_missing_restrictions(std::move(lacking));
  if (auto listening = instance.listen(); !listening) return listening;
  const bool had_terminal = has_terminal();
  bool stopping = false;
  const Subscription signals = loop.watch_signals({SIGTERM, SIGINT, SIGHUP}, [&](int number) {
    if (number == SIGHUP && (!had_terminal || has_terminal())) return instance.reload();
    if (std::exchange(stopping, true)) return loop.stop();  // asked twice: at once
    log::info("stopping");
    instance.stop([&loop] { loop.stop(); });
  });
  instance.start();
  for (const std::string& address : instance.listen_addresses())
    log::info("listening on {}", address);
  loop.run();
  return {};
}

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
