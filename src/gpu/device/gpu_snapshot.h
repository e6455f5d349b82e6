// The public views of a GPU: converts a snapshot to them, and defines what counts as an ECC error.
#pragma once

#include <optional>
#include <vector>

#include <boost/describe.hpp>

#include "gpu/device/snapshot.h"
#include "gpuyard/gpu_device.h"
#include "gpuyard/gpu_metrics.h"
#include "gpuyard/gpu_snapshot.h"

namespace gpuyard {

BOOST_DESCRIBE_STRUCT(GpuSnapshot, (),
                      (id, memory_total, memory_used, temperature_celsius, utilisation_percent,
                       ecc_errors_uncorrected))

// The probes that fill GpuSnapshot.
inline constexpr ProbeSet kSnapshotProbes = {Probe::memory, Probe::utilization, Probe::temperature,
                                             Probe::ecc_totals};

// Returns the uncorrectable memory errors over the life of the GPU, or since the driver was loaded
// if the GPU does not count the former. If never read, the reading says so.
Reading uncorrectable_errors(const Sample&);

// Returns nothing for a GPU that does not answer or whose memory or temperature is missing; the
// state itself says why.
std::optional<GpuSnapshot> gpu_snapshot_of(const DeviceState&);
std::vector<GpuSnapshot> gpu_snapshots_of(const Snapshot&);

// The probes that fill GpuMetrics.
inline constexpr ProbeSet kMetricsProbes = {Probe::memory, Probe::utilization, Probe::temperature,
                                            Probe::power,  Probe::power_limit, Probe::processes};

GpuMetrics metrics_of(const DeviceState&);

// The probes that fill a GPUDevice.
inline constexpr ProbeSet kGpuDeviceProbes = {Probe::memory, Probe::utilization,
                                              Probe::temperature};

GPUDevice gpu_device_of(const DeviceState&);

}  // namespace gpuyard
