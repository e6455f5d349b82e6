// What leases see of processes: the drivers' lists and what /proc says of those in them, put
// together. Plain values; asks nobody.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "device/snapshot.h"
#include "lease/observer.h"
#include "processes/evidence.h"

namespace gpuyard::daemon {

// Of the GPUs that leases ask about.
struct GpuLists {
  TimePoint taken;  // before any of it was asked
  // Who computes there; nothing: it cannot be told now.
  std::map<DeviceId, std::optional<std::vector<GpuProcess>>> computing = {};
  std::map<DeviceId, std::optional<std::int64_t>> used_bytes = {};  // but for what is drawn
  processes::Owners::Listed listed = {};                            // all who compute
};

// `asked`: when somebody asked for them. A GPU that does not answer now has no list.
GpuLists lists_in(const Snapshot&, const std::vector<DeviceId>& gpus, TimePoint asked);

std::vector<processes::Lessee> lessees_of(const std::vector<lease::Suspect>&);

// `lessees` are those of the suspects, and the evidence is theirs.
lease::Sight sight_of(const GpuLists&, const std::vector<lease::Suspect>&,
                      const std::vector<processes::Lessee>& lessees, const processes::Evidence&);

// When nothing could be looked at: no list is known, and nobody is gone.
lease::Sight blind_sight(const std::vector<lease::Suspect>&, const std::vector<DeviceId>& gpus,
                         TimePoint asked);

}  // namespace gpuyard::daemon
