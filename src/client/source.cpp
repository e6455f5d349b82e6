#include "client/source.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"
#include "client/daemon_client.h"
#include "library/monitor.h"
#include "protocol/routes.h"

namespace gpuyard::client {
namespace {

class DaemonSource final : public Source {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  Result<protocol::Snapshot> snapshot(ProbeSet) override {
    return call(daemon_, protocol::kSnapshot);
  }
  Result<protocol::DriverInfo> driver() override { return call(daemon_, protocol::kDriver); }
  Result<bool> simulated() override {
    const auto ready = call(daemon_, protocol::kReady);
    if (!ready) return ready.error();
    return ready->simulated;
  }
  std::string name() const override { return "the daemon at " + daemon_.text(); }
  bool on_this_machine() const override {
    if (daemon_.kind == http::Endpoint::Kind::unix_socket) return true;
    return daemon_.address == "::1" || daemon_.address.starts_with("127.");
  }

 private:
  http::Endpoint daemon_;
};

class LocalSource final : public Source {
 public:
  explicit LocalSource(library::Monitor monitor) : monitor_(std::move(monitor)) {}

  Result<protocol::Snapshot> snapshot(ProbeSet wanted) override {
    return protocol::snapshot_of(monitor_.inventory(kDeadline, wanted));
  }
  Result<protocol::DriverInfo> driver() override {
    return protocol::driver_info_of(monitor_.driver());
  }
  Result<bool> simulated() override { return monitor_.driver().simulated; }
  std::string name() const override { return "the driver"; }
  bool on_this_machine() const override { return true; }

 private:
  static constexpr Duration kDeadline = library::Monitor::kDefaultDeadline;

  library::Monitor monitor_;
};

// Where only the system's administrator can put a socket.
bool is_system_place(const std::string& path) {
  return path.starts_with("/run/gpuyard/");
}

// Whether a daemon that we may believe listens there. Only connecting decides: one that is there
// and silent is there. In a place that any user could have prepared it must be root's or our own.
bool daemon_listens(const std::string& path) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(path));
  if (!address) return false;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), address->get(), address->length) != 0) {
    return errno == EAGAIN && is_system_place(path);  // its queue is full
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return is_system_place(path) || peer.uid == 0 || peer.uid == ::geteuid();
}

Result<std::unique_ptr<Source>> open_local(const library::DriverChoice& choice) {
  auto backend = library::open_driver(choice);
  if (!backend) return std::move(backend).error();
  auto monitor = library::Monitor::open(*std::move(backend));
  if (!monitor) return std::move(monitor).error();
  return std::unique_ptr<Source>(std::make_unique<LocalSource>(*std::move(monitor)));
}

}  // namespace

std::optional<http::Endpoint> find_daemon(const std::vector<std::string>& sockets) {
  const auto found = std::ranges::find_if(sockets, daemon_listens);
  if (found == sockets.end()) return std::nullopt;
  return http::Endpoint::unix_socket(*found);
}

Result<std::unique_ptr<Source>> open_source(const SourceOptions& options) {
  if (options.local) return open_local(options.driver);
  if (!options.socket.empty()) {
    auto endpoint = http::parse_endpoint(options.socket);
    if (!endpoint) return std::move(endpoint).error().in("--socket");
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(endpoint)));
  }
  if (auto daemon = find_daemon(options.sockets)) {
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(daemon)));
  }
  return open_local(options.driver);
}

}  // namespace gpuyard::client
