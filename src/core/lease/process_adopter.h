// Makes leases for processes that use GPUs without one. A lease gets the GPUs that the process and
// its descendants use, past all waiting claims.
//
// Thread: io. The parts outlive it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"

namespace gpuyard::lease {

class ProcessAdopter {
 public:
  ProcessAdopter(LeaseParts& parts, LeaseTransitions& transitions, PoolUpdater& updater)
      : parts_(parts), transitions_(transitions), updater_(updater) {}

  // See LeaseManager::adopt().
  void adopt(const Caller&, std::uint32_t pid, const std::string& note, const OnLease&);

 private:
  struct PendingAdoption {
    Caller caller;
    ProcessIdentity process;
    std::string note;
    OnLease on_lease;
    std::string lease_id = {};  // the ID that its lease will have
  };
  // The processes that an adoption is about: the process and its descendants, as far as they use
  // unleased GPUs.
  struct ProcessTree {
    std::map<DeviceId, std::vector<ProcessKey>> own = {};            // of the same user, by GPU
    std::vector<std::pair<DeviceId, ObservedProcess>> foreign = {};  // of other users
    GpuSet gpus = {};                                                // those of `own`
  };

  void observe();
  void complete(const PendingAdoption&, const Observation&);
  ProcessTree tree_of(const PendingAdoption&, const Observation&) const;
  std::optional<Error> check_adoptable(const PendingAdoption&, const ProcessTree&) const;

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  ProcessObserver& observer_ = parts_.observer;
  QuotaTracker& quotas_ = parts_.quotas;
  Scheduler& scheduler_ = parts_.scheduler;
  const GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  HolderMonitor& holders_ = parts_.holders;
  ClientTracker& clients_ = parts_.clients;
  const LiveLeases& live_ = parts_.live;
  const LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
  PoolUpdater& updater_;
  bool is_observing_ = false;             // one observation at a time
  std::vector<PendingAdoption> pending_;  // callers whose GPUs the next observation finds
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
