// From what the house knows of a GPU to what libgpuyard tells: the one place of conversion.
#pragma once

#include <optional>
#include <string_view>

#include "device/catalog.h"
#include "device/health.h"
#include "device/snapshot.h"
#include "gpuyard/device.h"
#include "gpuyard/monitor.h"

namespace gpuyard::library {

Device public_device(const DeviceState&);
HealthPolicy health_policy(const MonitorOptions&);

// The row of this JSON key, if it is measured on a device.
const Row* row_of_key(std::string_view key);
// From the row's int64 to what its key says, and back.
double in_unit_of_key(const Row&, std::int64_t native);
std::int64_t in_native_unit(const Row&, double value);

}  // namespace gpuyard::library
