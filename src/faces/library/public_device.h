// The one place that converts gpuyard's records of a GPU to libgpuyard's, and the state of a public
// FakeFleet.
#pragma once

#include <optional>
#include <string_view>

#include "gpu/device/catalog.h"
#include "gpu/device/fake_backend.h"
#include "gpu/device/health.h"
#include "gpu/device/snapshot.h"
#include "gpuyard/device.h"
#include "gpuyard/fake_fleet.h"
#include "gpuyard/monitor.h"

namespace gpuyard {

// The state of a public FakeFleet: the internal one.
struct v0::FakeFleet::State {
  fakes::FakeFleet fleet;
};

}  // namespace gpuyard

namespace gpuyard::library {

Device public_device(const DeviceState&);
HealthPolicy health_policy(const MonitorOptions&);

// Returns the row of this JSON key, if it is measured on a device.
const MetricRow* find_row(std::string_view key);
// Convert the row's int64 to the unit that its key names, and back.
double to_key_unit(const MetricRow&, std::int64_t native);
std::int64_t to_native_unit(const MetricRow&, double value);

}  // namespace gpuyard::library
