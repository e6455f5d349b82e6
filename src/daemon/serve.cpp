#include "daemon/serve.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "daemon/yard.h"
#include "http/endpoint.h"
#include "metrics/prometheus.h"

namespace gpuyard::daemon {
namespace {

constexpr unsigned kPrivate = 0700;

// Each connection is a descriptor; the usual soft limit of 1024 is a habit of select().
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<UniqueFd> lock_state(const std::string& directory) {
  if (auto made = make_directories(directory, kPrivate); !made) {
    return std::move(made).error().in("the state directory");
  }
  auto lock = lock_file(directory + "/lock");
  if (!lock && lock.error().code == Errc::conflict) {
    const auto pid = read_file(directory + "/lock", 64);
    return Error{
        Errc::conflict,
        fmt::format("another gpuyard{} already serves with the state in {}; stop it, or give "
                    "this one its own --state and --socket",
                    pid && !pid->empty() ? " (pid " + *pid + ")" : "", directory)};
  }
  if (!lock) return lock;
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock->get(), 0) != 0 ||
      ::pwrite(lock->get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return system_error("writing " + directory + "/lock");
  }
  return lock;
}

Result<void> check(const config::Config& config) {
  for (const std::string& text : config.server.listen) {
    const auto endpoint = http::parse_endpoint(text);
    if (!endpoint) return Error(endpoint.error()).in("server.listen");
    if (endpoint->kind != http::Endpoint::Kind::tcp) {
      return Error{Errc::invalid,
                   "server.listen: \"" + text +
                       "\" is no ADDRESS:PORT; a Unix socket is named by server.socket"};
    }
  }
  const auto socket = http::to_socket_address(http::Endpoint::unix_socket(config.server.socket));
  if (!socket) return Error(socket.error()).in("server.socket");
  if (auto prefix = metrics::check_prefix(config.metrics.prefix); !prefix) {
    return std::move(prefix).error().in("metrics.prefix");
  }
  return {};
}

Result<void> serve(const ServeOptions& options) {
  if (auto valid = check(options.config); !valid) return valid;
  raise_descriptor_limit();
  ::signal(SIGPIPE, SIG_IGN);

  http::IoLoop loop;
  Yard yard(loop, options);
  if (auto listening = yard.listen(); !listening) return listening;
  bool stopping = false;
  const Subscription signals = loop.signals({SIGTERM, SIGINT}, [&](int) {
    if (std::exchange(stopping, true)) return loop.stop();  // asked twice: at once
    log::info("stopping");
    yard.stop([&loop] { loop.stop(); });
  });
  yard.start();
  for (const std::string& place : yard.places()) log::info("listening on {}", place);
  loop.run();
  return {};
}

}  // namespace gpuyard::daemon
