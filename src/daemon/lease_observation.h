// Builds what leases see of processes from the drivers' lists and from what /proc says of the
// processes in them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/lease/process_observer.h"
#include "core/processes/evidence.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {

// The lists of the GPUs that leases ask about.
struct GpuLists {
  TimePoint taken_at;  // before the first of it was asked
  // The computing processes; empty: they are not known now.
  std::map<DeviceId, std::optional<std::vector<GpuProcess>>> computing = {};
  std::map<DeviceId, std::optional<std::int64_t>> used_bytes = {};  // drawing excluded
  processes::ProcessCache::ListTimes listed = {};                   // all computing processes
};

// `requested_at` is when the lists were asked for. A GPU that does not answer now has no list.
GpuLists gpu_lists_of(const Snapshot&, const std::vector<DeviceId>& gpus, TimePoint requested_at);

std::vector<processes::LeaseProcesses> lease_processes_of(const std::vector<lease::ObservedLease>&);

// `lease_processes` and the evidence are those of the leases.
lease::Observation make_observation(const GpuLists&, const std::vector<lease::ObservedLease>&,
                                    const std::vector<processes::LeaseProcesses>& lease_processes,
                                    const processes::Evidence&);

// Returns the observation of a failed read: no list is known, and no process counts as gone.
lease::Observation failed_observation(const std::vector<lease::ObservedLease>&,
                                      const std::vector<DeviceId>& gpus, TimePoint requested_at);

}  // namespace gpuyard::daemon
