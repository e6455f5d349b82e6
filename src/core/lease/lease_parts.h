// The state shared by the classes that LeaseManager owns. Each class has references to the members
// that it uses, const references to those that it only reads.
//
// Thread: io. The loop, the observer and the storage outlive the parts.
#pragma once

#include "core/lease/client_tracker.h"
#include "core/lease/gpu_pool.h"
#include "core/lease/holder_monitor.h"
#include "core/lease/lease_policy.h"
#include "core/lease/lease_readiness.h"
#include "core/lease/lease_store.h"
#include "core/lease/live_leases.h"
#include "core/lease/process_observer.h"
#include "core/lease/quota_tracker.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct LeaseParts {
  static constexpr std::size_t kMaxKnownProcesses = 4096;  // processes that have or had a lease

  LeaseParts(Loop&, ProcessObserver&, LeaseStorage&, LeasePolicy, LeaseStore::Callbacks,
             HolderMonitor::OnGone);
  LeaseParts(const LeaseParts&) = delete;
  LeaseParts& operator=(const LeaseParts&) = delete;

  Loop& loop;
  ProcessObserver& observer;
  const LeasePolicy policy;
  QuotaTracker quotas;
  Scheduler scheduler;
  GpuPool gpus;
  LeaseStore store;
  HolderMonitor holders;
  ClientTracker clients;
  LiveLeases live;
  LeaseReadiness readiness;
};

}  // namespace gpuyard::lease
