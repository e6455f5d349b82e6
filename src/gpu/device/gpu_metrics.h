// The small view of a GPU that monitoring scripts and training hooks want.
#pragma once

#include "device/snapshot.h"
#include "gpuyard/gpu_metrics.h"

namespace gpuyard {

// What GpuMetrics holds.
inline constexpr ProbeSet kMetricsProbes = {Probe::memory, Probe::utilization, Probe::temperature,
                                            Probe::power,  Probe::power_limit, Probe::processes};

GpuMetrics metrics_of(const DeviceState&);

}  // namespace gpuyard
