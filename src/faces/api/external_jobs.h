// What the routes of all external allocators need, such as Slurm's hooks and the Kubernetes agent.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "core/lease/allocator.h"
#include "core/lease/lease_manager.h"
#include "faces/api/bound_route.h"

namespace gpuyard::api {

// Returns the leases of the allocator's jobs that have GPUs, the oldest first.
std::vector<const lease::Lease*> jobs_with_gpus(const lease::LeaseManager&, lease::Allocator);

// Reports the request that makes leases observe only for the audit, which has no line for later
// ones. `before`: whether they did before this request.
void report_observe_only(const lease::LeaseManager&, const RouteCall&, bool before);

// Leases the GPUs through gpuyard again, whichever allocator has reported last, and reports the
// request for the audit. `allocator` is the one that the request is about.
// Errors: conflict, while a job has GPUs; unavailable.
void stop_observing(lease::LeaseManager&, const RouteCall&, lease::Allocator,
                    const std::function<void(const Result<void>&)>& on_done);

}  // namespace gpuyard::api
