// Keeps what is known of the GPUs up to date: their readings, the processes on them that have no
// lease, and which of them waiting claims can use.
//
// Thread: io. The parts outlive it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/lifetime.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"

namespace gpuyard::lease {

class PoolUpdater {
 public:
  PoolUpdater(LeaseParts& parts, LeaseTransitions& transitions)
      : parts_(parts), transitions_(transitions) {}

  // Sets the one callback for each unleased process that is found on a GPU.
  void set_on_unleased_process(
      std::function<void(const DeviceId&, const ObservedProcess&)> callback) {
    on_unleased_process_ = std::move(callback);
  }

  // Accepts all present GPUs.
  void update_gpus(const std::vector<PoolGpu>&);
  // Observes GPUs that were not there when the others were observed.
  void observe_new_gpus();
  // Waiting claims may be able to use other GPUs than when they came.
  void recompute_eligibility();
  // Called when there are new lists of processes.
  void on_processes();
  void update_unleased(const Observation&);
  // Starts over: observations that have not ended are void.
  void clear();

 private:
  LeaseParts& parts_;
  const Loop& loop_ = parts_.loop;
  ProcessObserver& observer_ = parts_.observer;
  Scheduler& scheduler_ = parts_.scheduler;
  GpuPool& gpus_ = parts_.gpus;
  const LeaseStore& store_ = parts_.store;
  LiveLeases& live_ = parts_.live;
  const LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
  std::function<void(const DeviceId&, const ObservedProcess&)> on_unleased_process_;
  std::vector<std::string> inventory_;  // what claims could use at recompute_eligibility()
  // One observation of each kind at a time.
  bool is_observing_ = false;
  bool is_observing_new_gpus_ = false;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
