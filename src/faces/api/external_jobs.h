// What the routes of all external allocators need, such as Slurm's hooks and the Kubernetes agent.
#pragma once

#include <vector>

#include "core/lease/allocator.h"
#include "core/lease/lease.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"

namespace gpuyard::api {

// Returns the leases of the allocator's jobs that have GPUs, the oldest first.
std::vector<const lease::Lease*> jobs_with_gpus(const Context&, lease::Allocator);

// Reports the request that makes leases observe only for the audit, which has no line for later
// ones. `before`: whether they did before this request.
void report_observe_only(const Context&, const RouteCall&, bool before);

}  // namespace gpuyard::api
