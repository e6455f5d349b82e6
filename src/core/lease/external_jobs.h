// The jobs of an external allocator, such as Slurm: each gets a lease of the GPUs that it has, so
// that its use is counted as its own, and its leftover is seen. While there is such an allocator,
// gpuyard grants nothing itself.
//
// Thread: io. The parts outlive it.
#pragma once

#include <string>

#include "base/lifetime.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"

namespace gpuyard::lease {

class ExternalJobs {
 public:
  ExternalJobs(LeaseParts& parts, LeaseTransitions& transitions, PoolUpdater& updater)
      : parts_(parts), transitions_(transitions), updater_(updater) {}

  // See LeaseManager: accept_report(), stop_observing() and begin_job().
  void accept_report(Allocator);
  void stop_observing(const LeaseStore::OnDone&);
  void begin(const ExternalJob&, const OnLease&);

  // The allocator has the GPUs, unless the policy says that gpuyard leases them.
  void observe_only(Allocator);
  // Ends all waiting claims. REQUIRES: an allocator has the GPUs.
  void cancel_waiting();

 private:
  std::string new_job_id(const std::string& name) const;

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  const LeasePolicy& policy_ = parts_.policy;
  const QuotaTracker& quotas_ = parts_.quotas;
  Scheduler& scheduler_ = parts_.scheduler;
  GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  ClientTracker& clients_ = parts_.clients;
  const LiveLeases& live_ = parts_.live;
  const LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
  PoolUpdater& updater_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
