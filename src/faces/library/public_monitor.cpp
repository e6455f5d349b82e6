// The public Monitor: a thin shell over the house's, with the house's types converted at its edge.
#include <optional>
#include <utility>

#include "device/advice.h"
#include "device/error.h"
#include "device/gpu_snapshot.h"
#include "gpuyard/monitor.h"
#include "library/driver_source.h"
#include "library/monitor.h"
#include "library/own_place.h"
#include "library/public_device.h"
#include "library/public_fake_fleet.h"
#include "library/public_monitor.h"
#include "protocol/resources.h"

namespace gpuyard {
namespace {

using library::health_policy;
using std::chrono::milliseconds;

Result<std::shared_ptr<Backend>> nvml_of(const MonitorOptions& options) {
  const auto choice =
      library::choose_nvml(options.library, library::simulated_nvml_beside_library());
  auto backend = library::open_driver(choice);
  if (!backend) return std::move(backend).error();
  return std::shared_ptr<Backend>(*std::move(backend));
}

Result<library::Monitor> watch(Result<std::shared_ptr<Backend>> backend,
                               const MonitorOptions& options) {
  if (!backend) return std::move(backend).error();
  return library::Monitor::open(*std::move(backend), options.deadline, health_policy(options));
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
  return Monitor(std::make_shared<State>(State{watch(nvml_of(options), options)}));
}

Monitor Monitor::open_or_none(const v0::FakeFleet& fleet, const MonitorOptions& options) {
  std::shared_ptr<Backend> backend = fleet.state_->fleet.backend();
  return Monitor(std::make_shared<State>(State{watch(std::move(backend), options)}));
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
  if (index >= gpu_count()) return index_out_of_range(index);
  const Row* row = library::row_of_key(key);
  if (row == nullptr || row->kind == Kind::text) return feature_not_supported(key);
  const auto number = state_->monitor->read(index, row->metric, deadline);
  if (!number) return number.error();
  return library::in_unit_of_key(*row, *number);
}

std::vector<GpuMetrics> Monitor::collect_metrics(milliseconds deadline) const {
  return state_->view(
      [&](const library::Monitor& monitor) { return monitor.collect_metrics(deadline); });
}

std::vector<GPUDevice> Monitor::get_devices(milliseconds deadline) const {
  return state_->view([&](const library::Monitor& monitor) {
    std::vector<GPUDevice> devices;
    const auto shown = monitor.inventory(deadline, protocol::kGpuDeviceProbes);
    for (const DeviceState& device : shown.devices) {
      devices.push_back(protocol::gpu_device_of(device));
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
  if (index >= gpu_count()) return index_out_of_range(index);
  return state_->monitor->health(index, deadline);
}

Result<void> Monitor::acknowledge_ecc_errors(std::uint32_t index) const {
  if (index >= gpu_count()) return index_out_of_range(index);
  return state_->monitor->acknowledge_ecc_errors(index);
}

std::string v0::advice_on(const Error& error) {
  return advice_on_driver(init_failure_reason(error), "MonitorOptions::library");
}

std::string_view v0::version() {
  return GPUYARD_VERSION;
}

}  // namespace gpuyard
