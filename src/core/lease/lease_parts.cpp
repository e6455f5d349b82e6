#include "core/lease/lease_parts.h"

#include <algorithm>
#include <utility>

namespace gpuyard::lease {
namespace {

Fairness enable_draining(Fairness fairness) {
  fairness.drains = true;
  return fairness;
}

}  // namespace

LeaseParts::LeaseParts(Loop& io_loop, ProcessObserver& process_observer, LeaseStorage& storage,
                       LeasePolicy lease_policy, LeaseStore::Callbacks callbacks,
                       HolderMonitor::OnGone on_gone)
    : loop(io_loop),
      observer(process_observer),
      policy(std::move(lease_policy)),
      quotas(policy),
      scheduler(enable_draining(policy.fairness)),
      gpus(scheduler),
      store(
          loop, storage, [this](std::uint32_t uid) { return quotas.quota_owner(uid); },
          std::move(callbacks)),
      holders(loop, observer, std::min(policy.max_waiting_claims, kMaxKnownProcesses),
              std::move(on_gone)),
      clients(loop),
      live(store),
      readiness(gpus) {
  scheduler.close();
  if (policy.mode == GrantMode::observe) gpus.observe_only(Allocator::slurm);
}

}  // namespace gpuyard::lease
