// The public Monitor: a thin shell over library::Monitor that converts the records.
#include "faces/library/public_monitor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "base/try.h"
#include "faces/library/driver_source.h"
#include "faces/library/monitor.h"
#include "faces/library/public_device.h"
#include "gpu/device/error.h"
#include "gpu/device/gpu_snapshot.h"
#include "gpuyard/log.h"
#include "gpuyard/monitor.h"

namespace gpuyard {
namespace {

using library::health_policy;
using std::chrono::milliseconds;

Result<std::shared_ptr<Backend>> open_nvml(const MonitorOptions& options) {
  const auto choice = library::choose_nvml(options.library, library::simulated_nvml_path());
  auto backend = GPUYARD_TRY(library::open_driver(choice));
  return std::shared_ptr<Backend>(std::move(backend));
}

Result<library::Monitor> open_monitor(Result<std::shared_ptr<Backend>> backend,
                                      const MonitorOptions& options) {
  if (!backend) return std::move(backend).error();
  return library::Monitor::open(*std::move(backend), options.deadline, health_policy(options));
}

std::atomic<LogSink> g_sink = nullptr;

static_assert(static_cast<int>(LogLevel::debug) == static_cast<int>(log::Level::debug) &&
              static_cast<int>(LogLevel::error) == static_cast<int>(log::Level::error));

// Sends libgpuyard's log lines to the sink that the program has set.
void forward_log(log::Level level, std::string_view text) {
  if (const LogSink sink = g_sink) sink(static_cast<LogLevel>(level), text);
}

}  // namespace

Monitor::Monitor(std::shared_ptr<State> state) : state_(std::move(state)) {}
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&&) noexcept = default;
Monitor::~Monitor() = default;

Result<Monitor> Monitor::open(const MonitorOptions& options) {
  Monitor monitor = open_or_none(options);
  if (!monitor.state_->monitor) return std::move(monitor.state_->monitor).error();
  return monitor;
}

Result<Monitor> Monitor::open(const v0::FakeFleet& fleet, const MonitorOptions& options) {
  Monitor monitor = open_or_none(fleet, options);
  if (!monitor.state_->monitor) return std::move(monitor.state_->monitor).error();
  return monitor;
}

Monitor Monitor::open_or_none(const MonitorOptions& options) {
  return Monitor(std::make_shared<State>(State{open_monitor(open_nvml(options), options)}));
}

Monitor Monitor::open_or_none(const v0::FakeFleet& fleet, const MonitorOptions& options) {
  std::shared_ptr<Backend> backend = fleet.state_->fleet.backend();
  return Monitor(std::make_shared<State>(State{open_monitor(std::move(backend), options)}));
}

std::uint32_t Monitor::gpu_count() const {
  return state_->count();
}

std::vector<GpuSnapshot> Monitor::snapshot(milliseconds deadline) const {
  return state_->view([&](const library::Monitor& monitor) {
    return gpu_snapshots_of(monitor.snapshot(deadline, kSnapshotProbes));
  });
}

std::vector<Device> Monitor::inventory(milliseconds deadline) const {
  return state_->view([&](const library::Monitor& monitor) {
    std::vector<Device> devices;
    for (const DeviceState& device : monitor.inventory(deadline).devices) {
      devices.push_back(library::public_device(device));
    }
    return devices;
  });
}

Result<double> Monitor::read(std::uint32_t index, std::string_view key,
                             milliseconds deadline) const {
  if (index >= gpu_count()) return index_range_error(index);
  const MetricRow* row = library::find_row(key);
  if (row == nullptr || row->kind == MetricKind::text) return unsupported_feature_error(key);
  const auto number = GPUYARD_TRY(state_->monitor->read(index, row->metric, deadline));
  return library::to_key_unit(*row, number);
}

std::vector<GpuMetrics> Monitor::collect_metrics(milliseconds deadline) const {
  return state_->view(
      [&](const library::Monitor& monitor) { return monitor.collect_metrics(deadline); });
}

std::vector<GPUDevice> Monitor::get_devices(milliseconds deadline) const {
  return state_->view([&](const library::Monitor& monitor) {
    std::vector<GPUDevice> devices;
    const auto shown = monitor.inventory(deadline, kGpuDeviceProbes);
    for (const DeviceState& device : shown.devices) {
      devices.push_back(gpu_device_of(device));
    }
    return devices;
  });
}

Result<DriverInfo> Monitor::get_driver_info() const {
  if (!state_->monitor) return state_->monitor.error();
  return state_->monitor->driver();
}

bool Monitor::is_cuda_available() const {
  return gpu_count() > 0;
}

Result<HealthReport> Monitor::health(std::uint32_t index, milliseconds deadline) const {
  if (index >= gpu_count()) return index_range_error(index);
  return state_->monitor->health(index, deadline);
}

Result<void> Monitor::acknowledge_ecc_errors(std::uint32_t index) const {
  if (index >= gpu_count()) return index_range_error(index);
  return state_->monitor->acknowledge_ecc_errors(index);
}

std::string v0::advice_on(const Error& error) {
  return driver_advice(init_failure_reason(error), "MonitorOptions::library");
}

std::string_view v0::version() {
  return GPUYARD_VERSION;
}

void v0::set_log_sink(LogSink sink, LogLevel least) {
  g_sink = sink;
  log::set_level(static_cast<log::Level>(least));
  log::capture(sink != nullptr ? forward_log : nullptr);
}

}  // namespace gpuyard

namespace gpuyard::library {
namespace {

constexpr const char* kNvml = "/libnvidia-ml.so.1";

std::string own_directory() {
  Dl_info info{};
  const auto* here = reinterpret_cast<const void*>(&own_directory);
  if (::dladdr(here, &info) == 0 || info.dli_fname == nullptr) return "";
  return parent_directory(info.dli_fname);
}

}  // namespace

std::string simulated_nvml_path() {
  const std::string here = own_directory();
  std::string installed = here + "/gpuyard/sim" + kNvml;
  // A distribution may put libraries one folder deeper than the rest; a build tree has both in its
  // root.
  for (const std::string& path :
       {installed, here + "/../gpuyard/sim" + kNvml, here + "/sim" + kNvml}) {
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return installed;
}

}  // namespace gpuyard::library
