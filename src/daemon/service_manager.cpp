#include "daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/text.h"

namespace gpuyard::daemon {
namespace {

constexpr int kPingsPerTimeout = 4;
// In microseconds. A manager that asks for a sign more often, or less than once a day, means
// something else.
constexpr std::uint64_t kMinWatchdogUs = 100'000;
constexpr std::uint64_t kMaxWatchdogUs = 86'400'000'000;

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

UniqueFd connect_to_manager(const std::string& path) {
  sockaddr_un address{};
  if (path.empty()) return UniqueFd();
  // An abstract name ends with the address, a path with a zero.
  if (path.size() + (path.front() == '@' ? 0 : 1) > sizeof address.sun_path) {
    log::warning("cannot notify the service manager: {} is not a socket name", path);
    return UniqueFd();
  }
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // A manager that is busy for a moment must not miss that we are ready, and one that hangs must
  // not keep us.
  constexpr timeval kSendTimeout{.tv_sec = 0, .tv_usec = 200'000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  log::warning("cannot notify the service manager at {}: {}", path, std::strerror(errno));
  return UniqueFd();
}

}  // namespace

ServiceManager ServiceManager::of_environment() {
  const std::string socket = take_variable("NOTIFY_SOCKET");
  const auto timeout_us = parse_number<std::uint64_t>(take_variable("WATCHDOG_USEC"));
  const std::string watchdog_pid = take_variable("WATCHDOG_PID");
  const bool ours = watchdog_pid.empty() || watchdog_pid == std::to_string(::getpid());
  const bool sensible =
      timeout_us && *timeout_us >= kMinWatchdogUs && *timeout_us <= kMaxWatchdogUs;
  if (!sensible || !ours) return ServiceManager(socket);
  return ServiceManager(socket, std::chrono::microseconds(*timeout_us));
}

ServiceManager::ServiceManager(const std::string& socket, std::optional<Duration> watchdog)
    : socket_(connect_to_manager(socket)), watchdog_timeout_(watchdog) {}

void ServiceManager::send(const std::string& text) const {
  if (socket_) static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

void ServiceManager::notify_ready(const std::string& status) const {
  send("READY=1\nSTATUS=" + status);
}

void ServiceManager::notify_stopping() const {
  send("STOPPING=1\nSTATUS=shutting down: clients have half a second to finish");
}

void ServiceManager::start_watchdog(Loop& loop, Worker& worker) {
  if (!socket_ || !watchdog_timeout_) return;
  send("WATCHDOG=1");
  schedule_watchdog_ping(loop, worker);
}

void ServiceManager::schedule_watchdog_ping(Loop& loop, Worker& worker) {
  ping_timer_ = loop.call_after(*watchdog_timeout_ / kPingsPerTimeout, [this, &loop, &worker] {
    const auto on_done = lifetime_.guard([this, &loop, &worker] { start_watchdog(loop, worker); });
    // A full queue is no progress; it may have moved when we ask again.
    if (!worker.post([on_done] { return Worker::Completion(on_done); }))
      schedule_watchdog_ping(loop, worker);
  });
}

}  // namespace gpuyard::daemon
