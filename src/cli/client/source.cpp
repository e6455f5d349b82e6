#include "cli/client/source.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"
#include "cli/client/daemon_client.h"
#include "cli/client/hosts.h"
#include "library/energy_window.h"
#include "library/monitor.h"
#include "processes/owners.h"
#include "protocol/routes.h"

namespace gpuyard::client {
namespace {

class DaemonMeasuring final : public Measuring {
 public:
  DaemonMeasuring(http::Endpoint daemon, std::string id)
      : daemon_(std::move(daemon)), id_(std::move(id)) {}
  // Without end() the daemon would keep the window until its time is over.
  ~DaemonMeasuring() override {
    if (!id_.empty()) static_cast<void>(end().ok());
  }
  DaemonMeasuring(const DaemonMeasuring&) = delete;
  DaemonMeasuring& operator=(const DaemonMeasuring&) = delete;

  Result<protocol::EnergyWindow> end() override {
    return call(daemon_, protocol::kEndEnergyWindow, {std::exchange(id_, "")});
  }

 private:
  http::Endpoint daemon_;
  std::string id_;
};

class LocalMeasuring final : public Measuring {
 public:
  explicit LocalMeasuring(library::EnergyWindow window) : window_(std::move(window)) {}
  Result<protocol::EnergyWindow> end() override {
    const library::EnergyMark mark = window_.mark();
    return protocol::energy_window_of(mark.used, mark.seen);
  }

 private:
  library::EnergyWindow window_;
};

class DaemonSource final : public Source {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  Result<protocol::Snapshot> snapshot(ProbeSet, Owners) override {
    return call(daemon_, protocol::kSnapshot);
  }
  Result<protocol::DeviceProcesses> processes(std::uint32_t index) override {
    return call(daemon_, protocol::kDeviceProcesses, protocol::DeviceName{std::to_string(index)});
  }
  Result<protocol::DriverInfo> driver() override { return call(daemon_, protocol::kDriver); }
  Result<bool> simulated() override {
    const auto ready = call(daemon_, protocol::kReady);
    if (!ready) return ready.error();
    return ready->simulated;
  }
  Result<protocol::EnergyReport> energy() override { return call(daemon_, protocol::kEnergy); }
  Result<std::unique_ptr<Measuring>> measure(const protocol::EnergyWindowWish& wish) override {
    auto window = call(daemon_, protocol::kBeginEnergyWindow, {}, wish);
    if (!window) return std::move(window).error();
    return std::unique_ptr<Measuring>(std::make_unique<DaemonMeasuring>(daemon_, window->id));
  }
  std::string name() const override { return "the daemon at " + daemon_.text(); }

 private:
  http::Endpoint daemon_;
};

class LocalSource final : public Source {
 public:
  LocalSource(library::Monitor monitor, bool recorded)
      : monitor_(std::move(monitor)), recorded_(recorded) {}

  Result<protocol::Snapshot> snapshot(ProbeSet wanted, Owners owners) override {
    last_ = monitor_.inventory(kDeadline, wanted);
    owners_.reset();
    if (owners == Owners::looked_up) {
      owners_ = processes::look_up_all(processes::listed_in(last_), numbers());
    }
    return protocol::snapshot_of(last_, owners_.get());
  }
  Result<protocol::DeviceProcesses> processes(std::uint32_t index) override {
    const auto device = find_device(last_, std::to_string(index));
    if (!device) return device.error();
    // Arguments that this user may not see could not be read anyway.
    return protocol::device_processes_of(**device, last_.taken, owners_.get(),
                                         [](const ProcessFacts&) { return true; });
  }
  Result<protocol::DriverInfo> driver() override {
    return protocol::driver_info_of(monitor_.driver());
  }
  Result<bool> simulated() override { return monitor_.driver().simulated; }
  Result<protocol::EnergyReport> energy() override {
    return Error{
        Errc::unavailable,
        "there is no daemon, and nobody else keeps books of energy. `gpuyard serve` "
        "starts one; `gpuyard energy -- COMMAND` measures without; `gpuyard query --fields "
        "index,energy_total_j` shows the GPUs' counters"};
  }
  Result<std::unique_ptr<Measuring>> measure(const protocol::EnergyWindowWish& wish) override {
    const auto plain = protocol::window_wish_of(wish, ::geteuid());
    if (!plain) return plain.error();
    auto window = library::EnergyWindow::begin(monitor_, *plain);
    if (!window) return std::move(window).error();
    return std::unique_ptr<Measuring>(std::make_unique<LocalMeasuring>(*std::move(window)));
  }
  std::string name() const override { return "the driver"; }

 private:
  static constexpr Duration kDeadline = library::Monitor::kDefaultDeadline;

  processes::Numbers numbers() const {
    using enum processes::Numbers;
    if (recorded_) return of_a_recording;
    return monitor_.driver().simulated ? of_simulation : of_a_driver;
  }

  library::Monitor monitor_;
  bool recorded_;
  gpuyard::Snapshot last_;
  std::unique_ptr<ProcessBook> owners_;
};

// Whether only the system's administrator can put a socket there.
bool is_system_place(const std::string& path) {
  return path.starts_with("/run/gpuyard/");
}

// Whether a trusted daemon listens there. Connecting alone decides: a silent daemon counts as
// there. In a place that any user could have prepared, it must run as root or as our own user.
bool daemon_listens(const std::string& path) {
  const auto address = http::to_socket_address(http::Endpoint::unix_socket(path));
  if (!address) return false;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), address->get(), address->length) != 0) {
    return errno == EAGAIN && is_system_place(path);  // its queue is full: it is there
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
  return std::unique_ptr<Source>(
      std::make_unique<LocalSource>(*std::move(monitor), choice.replay.has_value()));
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
    auto endpoint = daemon_called(options.socket, options.keys);
    if (!endpoint) return std::move(endpoint).error().in("--socket");
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(endpoint)));
  }
  if (auto daemon = find_daemon(options.sockets)) {
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(daemon)));
  }
  return open_local(options.driver);
}

}  // namespace gpuyard::client
