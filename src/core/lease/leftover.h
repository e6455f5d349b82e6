// The leftover of a draining lease, which ends only when none of its processes lives, none is on
// its GPUs, and their memory is free again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/lease/gpu_pool.h"
#include "core/lease/lease.h"
#include "core/lease/process_observer.h"

namespace gpuyard::lease {

// A driver keeps some memory of a process for a moment; more than this still belongs to a process.
inline constexpr std::int64_t kSlackBytes = std::int64_t{512} << 20;

// Returns the processes of the lease that have to go: those on its GPUs, and those that may still
// begin to use them. The holder that released its lease itself may live on.
std::vector<ProcessKey> remaining_processes(const Lease&, const Observation&);

struct Leftover {
  std::string text;          // for people
  bool is_observed = false;  // if not, it is unknown whether anything is left
};

// Returns nothing if all is gone.
std::optional<Leftover> find_leftover(const Lease&, const Observation&, const GpuPool&);

}  // namespace gpuyard::lease
