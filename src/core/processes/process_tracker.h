// Tracks the processes on the GPUs, from the process lists in snapshots, through a worker that
// reads /proc. If the worker is slow or stuck, new processes are "not looked up yet", and known
// facts stay.
//
// Thread: io. The worker outlives the tracker. REQUIRES: no completion of the worker runs after the
// tracker is destroyed.
#pragma once

#include <memory>
#include <string>

#include "base/worker.h"
#include "core/processes/process_cache.h"
#include "gpu/device/process.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::processes {

class ProcessTracker {
 public:
  // `recorded`: the lists come from a recording.
  ProcessTracker(Worker&, std::string proc_root, bool recorded);
  ~ProcessTracker();

  void on_snapshot(const Snapshot&);
  const ProcessDirectory& directory() const { return cache_; }

 private:
  struct WorkerState;  // the state that the worker's tasks use

  void request_facts();
  void request_names();

  Worker& worker_;
  const bool recorded_;
  std::shared_ptr<WorkerState> worker_state_;
  ProcessCache cache_;
  ProcessCache::ListTimes list_times_;
  PidOrigin pid_origin_ = PidOrigin::driver;
  bool needs_refresh_ = false;    // there are queries for the worker
  bool facts_requested_ = false;  // the worker has not replied yet
  bool names_requested_ = false;
};

}  // namespace gpuyard::processes
