// The verdict on a GPU, from the alerts that quarantine it and its present readings.
#pragma once

#include <cstdint>
#include <optional>

#include "faces/protocol/verdict.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::api {

struct VerdictApi;

// Returns the N of its device file /dev/nvidiaN; nothing if it is not known. A GPU that does not
// answer any more has the one that it had.
std::optional<std::int64_t> minor_of(VerdictApi&, const DeviceState&);

// Returns whether the driver has been missing long enough for an alert to fire.
bool is_driver_down(const VerdictApi&);

// The alerts have hold times, and a verdict as well: a GPU that only reads badly now is unknown,
// not bad.
protocol::GpuVerdict verdict_of(VerdictApi&, const DeviceState&);

}  // namespace gpuyard::api
