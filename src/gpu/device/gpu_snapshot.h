// The smallest common view of a GPU: from a snapshot to the public value, and what it counts as ECC
// errors.
#pragma once

#include <optional>
#include <vector>

#include <boost/describe.hpp>

#include "device/snapshot.h"
#include "gpuyard/gpu_metrics.h"
#include "gpuyard/gpu_snapshot.h"

namespace gpuyard {

BOOST_DESCRIBE_STRUCT(GpuSnapshot, (),
                      (id, memory_total, memory_used, temperature_celsius, utilisation_percent,
                       ecc_errors_uncorrected))

// What GpuSnapshot holds.
inline constexpr ProbeSet kSnapshotProbes = {Probe::memory, Probe::utilization, Probe::temperature,
                                             Probe::ecc_totals};

// Uncorrectable memory errors: over the life of the GPU, or, of one that does not count these,
// since the driver was loaded. Never read: a reading that says so.
Reading uncorrectable_errors(const Sample&);

// Nothing of a GPU that does not answer, or whose memory or temperature is missing: the state
// itself says why.
std::optional<GpuSnapshot> gpu_snapshot_of(const DeviceState&);
std::vector<GpuSnapshot> gpu_snapshots_of(const Snapshot&);

// The small view of a GPU that monitoring scripts and training hooks want.

// What GpuMetrics holds.
inline constexpr ProbeSet kMetricsProbes = {Probe::memory, Probe::utilization, Probe::temperature,
                                            Probe::power,  Probe::power_limit, Probe::processes};

GpuMetrics metrics_of(const DeviceState&);

}  // namespace gpuyard
