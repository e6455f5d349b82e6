#include "cli/source.h"

#include <algorithm>
#include <thread>

#include "base/try.h"
#include "core/processes/process_cache.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local_daemon.h"
#include "faces/library/energy_window.h"
#include "faces/library/monitor.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

class DaemonMeasurement final : public SourceMeasurement {
 public:
  DaemonMeasurement(http::Endpoint daemon, std::string id)
      : daemon_(std::move(daemon)), id_(std::move(id)) {}
  // Without finish() the daemon would keep the window until its time is over.
  ~DaemonMeasurement() override {
    if (!id_.empty()) static_cast<void>(finish().ok());
  }
  DaemonMeasurement(const DaemonMeasurement&) = delete;
  DaemonMeasurement& operator=(const DaemonMeasurement&) = delete;

  Result<protocol::EnergyWindow> finish() override {
    return client::call_with_retry(daemon_, protocol::kEndEnergyWindow, {std::exchange(id_, "")});
  }

 private:
  http::Endpoint daemon_;
  std::string id_;
};

class LocalMeasurement final : public SourceMeasurement {
 public:
  explicit LocalMeasurement(library::EnergyWindow window) : window_(std::move(window)) {}
  Result<protocol::EnergyWindow> finish() override {
    const library::EnergyMark mark = window_.mark();
    return protocol::energy_window_of(mark.used, mark.snapshot);
  }

 private:
  library::EnergyWindow window_;
};

class DaemonSource final : public Source {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  // A daemon that has just started is given time to ask the driver.
  Result<protocol::Snapshot> snapshot(ProbeSet, OwnerLookup) override {
    const TimePoint until = BootClock::now() + kDriverStartTimeout;
    while (true) {
      auto reply = client::call(daemon_, protocol::kSnapshot);
      const bool driver_ready = !reply || reply->driver_initialised || reply->generation > 0;
      if (driver_ready || BootClock::now() >= until) return reply;
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  const http::Endpoint* daemon() const override { return &daemon_; }
  Result<protocol::DeviceProcesses> processes(std::uint32_t index) override {
    return client::call(daemon_, protocol::kDeviceProcesses,
                        protocol::DeviceName{std::to_string(index)});
  }
  Result<protocol::DriverInfo> driver() override {
    return client::call(daemon_, protocol::kDriver);
  }
  Result<bool> simulated() override {
    const auto ready = GPUYARD_TRY(client::call(daemon_, protocol::kReady));
    return ready.simulated;
  }
  std::optional<Error> unusable_error() override {
    const auto ready = client::call(daemon_, protocol::kReady);
    if (!ready) return ready.error();
    if (ready->ready) return std::nullopt;
    return Error{Errc::unavailable, ready->reason};
  }
  Result<protocol::EnergyReport> energy() override {
    return client::call_with_retry(daemon_, protocol::kEnergy);
  }
  Result<std::unique_ptr<SourceMeasurement>> begin_measurement(
      const protocol::EnergyWindowRequest& request) override {
    auto window = client::call_with_retry(daemon_, protocol::kBeginEnergyWindow, {}, request);
    if (!window) return std::move(window).error();
    return std::unique_ptr<SourceMeasurement>(
        std::make_unique<DaemonMeasurement>(daemon_, window->id));
  }
  std::string name() const override { return "the daemon at " + daemon_.text(); }

 private:
  static constexpr Duration kDriverStartTimeout = std::chrono::seconds(10);
  static constexpr Duration kPollInterval = std::chrono::milliseconds(20);

  http::Endpoint daemon_;
};

Error in_words(Error error) {
  error.message = client::readable_message(error.message);
  return error;
}

class LocalSource final : public Source {
 public:
  LocalSource(library::Monitor monitor, bool recorded)
      : monitor_(std::move(monitor)), recorded_(recorded) {}

  Result<protocol::Snapshot> snapshot(ProbeSet wanted, OwnerLookup owners) override {
    last_ = monitor_.inventory(kReadTimeout, wanted);
    const bool look_up = owners == OwnerLookup::looked_up;
    if (look_up) look_up_processes();
    auto snapshot = protocol::snapshot_of(last_, look_up ? directory() : nullptr, wanted);
    for (protocol::Device& device : snapshot.devices) {
      if (!device.processes) continue;
      // Not shown without a daemon: a single read does not have it.
      for (protocol::Process& process : *device.processes) process.cpu_percent.reset();
    }
    return snapshot;
  }
  Result<protocol::DeviceProcesses> processes(std::uint32_t index) override {
    const auto device = GPUYARD_TRY(find_device(last_, std::to_string(index)));
    // Arguments that this user may not see could not be read anyway.
    return protocol::device_processes_of(*device, last_.taken, directory(),
                                         [](const ProcessMetadata&) { return true; });
  }
  Result<protocol::DriverInfo> driver() override {
    return protocol::driver_info_of(monitor_.driver());
  }
  Result<bool> simulated() override { return monitor_.driver().simulated; }
  Result<protocol::EnergyReport> energy() override {
    return Error{Errc::unavailable,
                 "energy accounting needs a daemon, and none is running on this machine", "",
                 client::start_command() +
                     "\ngpuyard query --fields index,energy_total_j  # the counters of the GPUs"};
  }
  Result<std::unique_ptr<SourceMeasurement>> begin_measurement(
      const protocol::EnergyWindowRequest& request) override {
    const auto plain = protocol::window_request_of(request, ::geteuid());
    if (!plain) return in_words(plain.error());
    auto window = library::EnergyWindow::begin(monitor_, *plain);
    if (!window) return in_words(window.error());
    return std::unique_ptr<SourceMeasurement>(
        std::make_unique<LocalMeasurement>(*std::move(window)));
  }
  std::string name() const override { return "the driver"; }

 private:
  static constexpr Duration kReadTimeout = library::Monitor::kDefaultTimeout;

  // The users and commands of processes that are already known are not read again.
  struct KnownProcesses {
    processes::ProcessReader reader;
    processes::ProcessCache cache;
  };

  void look_up_processes() {
    using enum processes::PidOrigin;
    if (!known_) known_.emplace();
    processes::look_up_all(known_->cache, known_->reader, processes::list_times_of(last_),
                           recorded_                     ? recording
                           : monitor_.driver().simulated ? simulation
                                                         : driver);
  }
  const ProcessDirectory* directory() const { return known_ ? &known_->cache : nullptr; }

  library::Monitor monitor_;
  bool recorded_;
  gpuyard::Snapshot last_;
  std::optional<KnownProcesses> known_;  // nothing until owners are first looked up
};

Result<std::unique_ptr<Source>> open_local(const library::DriverChoice& choice) {
  auto backend = GPUYARD_TRY(library::open_driver(choice));
  auto monitor = GPUYARD_TRY(library::Monitor::open(std::move(backend)));
  return std::unique_ptr<Source>(
      std::make_unique<LocalSource>(std::move(monitor), choice.replay.has_value()));
}

}  // namespace

Result<http::Endpoint> resolve_daemon(const SourceOptions& options) {
  auto endpoint = client::parse_daemon_address(options.socket, options.keys);
  // The error of a daemon elsewhere names its URL, hosts.toml or the file of a token itself.
  if (endpoint || client::is_remote_address(options.socket)) return endpoint;
  return std::move(endpoint).error().in(options.named_by);
}

Result<std::unique_ptr<Source>> open_source(const SourceOptions& options) {
  if (options.local) return open_local(options.driver);
  if (!options.socket.empty()) {
    auto endpoint = GPUYARD_TRY(resolve_daemon(options));
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(std::move(endpoint)));
  }
  if (auto daemon = client::find_daemon(options.sockets)) {
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(daemon)));
  }
  return open_local(options.driver);
}

}  // namespace gpuyard::cli
