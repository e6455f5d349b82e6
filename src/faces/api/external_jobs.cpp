#include "faces/api/external_jobs.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::api {

std::vector<const lease::Lease*> jobs_with_gpus(const lease::LeaseManager& leases,
                                                lease::Allocator allocator) {
  std::vector<const lease::Lease*> jobs;
  for (const lease::Lease* lease : leases.leases_with_gpus()) {
    // A lease that is over is reported before the disk has it: its GPUs are not granted until then.
    const bool over = std::ranges::none_of(
        lease->gpus, [&](const DeviceId& gpu) { return leases.is_leased(gpu); });
    if (lease->spec.binding != lease::Binding::job || over) continue;
    if (lease::allocator_of(*lease) == allocator) jobs.push_back(lease);
  }
  return jobs;
}

void report_observe_only(const lease::LeaseManager& leases, const RouteCall& call, bool before) {
  const auto allocator = leases.gpus().allocator();
  if (before || !allocator) return call.report_no_change();
  call.report_action(fmt::format("leave the GPUs to {}", lease::words_of(*allocator).name));
}

void stop_observing(lease::LeaseManager& leases, const RouteCall& call, lease::Allocator allocator,
                    const std::function<void(const Result<void>&)>& on_done) {
  const bool before = leases.gpus().allocator().has_value();
  leases.stop_observing([call, allocator, before, on_done](const Result<void>& result) {
    if (result && before) {
      call.report_action(
          fmt::format("lease the GPUs again, without {}", lease::words_of(allocator).name));
    } else if (result) {
      call.report_no_change();
    }
    on_done(result);
  });
}

}  // namespace gpuyard::api
