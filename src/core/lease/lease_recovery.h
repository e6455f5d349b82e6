// Restores leases from the disk: at the start, and whenever it is not known what the disk holds.
// Nothing is granted before the processes of the stored leases were observed.
//
// Thread: io. The parts outlive it.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "core/lease/drain_monitor.h"
#include "core/lease/external_jobs.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"

namespace gpuyard::lease {

class LeaseRecovery {
 public:
  // The stored state is read again this long after a disk error.
  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(2);
  // Restored leases are observed again this long after a failed observation.
  static constexpr Duration kRecoveryRetryDelay = std::chrono::milliseconds(500);
  // A detached lease has at least this time left after a restart.
  static constexpr Duration kMinTimeAfterRestart = std::chrono::seconds(60);

  LeaseRecovery(LeaseParts& parts, LeaseTransitions& transitions, PoolUpdater& updater,
                DrainMonitor& drains, ExternalJobs& jobs)
      : parts_(parts), transitions_(transitions), updater_(updater), drains_(drains), jobs_(jobs) {}

  // See LeaseManager.
  void start();
  void stop();
  // The storage has lost what is staged.
  void on_store_failed(const Error&);
  // Grants again once all that must be known is known.
  void open_if_ready();

 private:
  using Phase = LeaseReadiness::Phase;
  // The state of restored leases that must be known before anything is granted.
  struct Progress {
    std::size_t pending_rebinds = 0;  // processes
    std::vector<std::pair<std::string, ProcessKey>> failed_rebinds = {};
    bool is_observing = false;
    bool is_observed = false;  // who uses the GPUs
    Subscription timer = {};
  };

  void load();
  void on_loaded(Result<SavedLeases>);
  void restore(const Lease&);
  void rebind(const std::string& id, const ProcessKey&);
  void retry_rebind();
  void observe_restored();
  void on_restored_observed(const Observation&);

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  ProcessObserver& observer_ = parts_.observer;
  QuotaTracker& quotas_ = parts_.quotas;
  Scheduler& scheduler_ = parts_.scheduler;
  GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  HolderMonitor& holders_ = parts_.holders;
  ClientTracker& clients_ = parts_.clients;
  LiveLeases& live_ = parts_.live;
  LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
  PoolUpdater& updater_;
  DrainMonitor& drains_;
  ExternalJobs& jobs_;
  Progress progress_;
  Subscription load_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
