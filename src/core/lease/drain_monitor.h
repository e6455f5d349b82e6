// Watches draining leases: ends each once its processes were seen gone and their memory is free,
// sends signals to the processes that are left, and knows which leases have a leftover.
//
// Thread: io. The parts outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/lifetime.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"

namespace gpuyard::lease {

// The result of a signal to the processes of a lease.
struct SignalResult {
  Lease lease;                               // as it is afterwards
  std::vector<SignalFailure> failures = {};  // the processes that run and did not get it
  bool checked = true;                       // false: the processes could not be observed in time
};

class DrainMonitor {
 public:
  using OnSignal = std::function<void(Result<SignalResult>)>;

  // A lease that begins to drain is checked for leftovers after this time, together with all that
  // begin to drain meanwhile. So the answer to a release does not share the processor with the
  // search for processes, unless the disk takes longer.
  static constexpr Duration kFirstPollDelay = std::chrono::milliseconds(5);
  // Then draining leases are checked at this interval; 5 s after the last has begun to drain, at
  // four times of it.
  static constexpr Duration kPollInterval = std::chrono::milliseconds(250);
  // A signal is answered without an observation of the processes after this time.
  static constexpr Duration kSignalTimeout = std::chrono::seconds(1);

  DrainMonitor(LeaseParts& parts, LeaseTransitions& transitions, PoolUpdater& updater)
      : parts_(parts), transitions_(transitions), updater_(updater) {}

  // Sets the one check that is called for a draining lease once its processes are gone and their
  // memory is free. It returns what else is left.
  void set_check(std::function<std::optional<std::string>(const Lease&)> callback) {
    check_ = std::move(callback);
  }
  bool has_leftover(std::string_view id) const { return with_leftover_.contains(id); }

  // The leases are open: checks those that drain already.
  void start();
  void stop() { timer_.reset(); }
  // The leases are read again: what is known of them is void.
  void clear();
  // A lease has begun to drain.
  void on_drain_begun();
  // A lease has ended: it has no process left.
  void remove(const std::string& id);

  // Checks all draining leases now.
  void poll();
  // Sends a signal to the processes of a draining lease that the next poll finds. `only_uid`: those
  // of one user; empty: an administrator sends it.
  void signal(const Lease&, int number, std::optional<std::uint32_t> only_uid, const OnSignal&);
  // Ends a draining lease whatever is left.
  void force(const Caller&, const Lease&, const std::string& reason, const OnLease&);

 private:
  struct Signal {
    int number = 0;
    std::optional<std::uint32_t> only_uid = {};
    std::vector<OnSignal> waiters = {};
    Subscription timeout_timer = {};
  };
  using SignalPtr = std::shared_ptr<Signal>;

  void schedule_poll(TimePoint);
  void on_observed(const Observation&);
  void check(const std::string& id, const Observation&);
  void send_signals(const Lease&, const Observation&);
  void answer_signal(const std::string& id, const SignalPtr&,
                     const std::vector<SignalFailure>& failures, bool checked);
  void drop_signals(const std::string& id, bool checked);

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  ProcessObserver& observer_ = parts_.observer;
  const GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  LiveLeases& live_ = parts_.live;
  const LeaseReadiness& readiness_ = parts_.readiness;
  LeaseTransitions& transitions_;
  PoolUpdater& updater_;
  std::function<std::optional<std::string>(const Lease&)> check_;
  bool is_polling_ = false;
  bool repeat_poll_ = false;                          // the poll under way may not cover all leases
  std::set<std::string, std::less<>> with_leftover_;  // see has_leftover()
  std::map<std::string, std::vector<SignalPtr>> signals_;  // to be sent to draining leases
  TimePoint draining_since_{};  // when the last lease began to drain, or start()
  TimePoint poll_at_{};
  Subscription timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
