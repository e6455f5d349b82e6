// The states of a lease, which only this class changes: as others ask for it, and as time passes.
//
//      enqueue()             grant_at_once()
//         |                      |  in one turn
//         v                      v
//   +---------+              +---------+                 +----------+
//   | waiting |-- grant() -->|  held   |- begin_drain() >| draining |
//   +---------+              +---------+                 +----------+
//         |                                                    |
//       end()                +---------+                     end()
//         +----------------->|  ended  |<--------------------+
//                            +---------+
//
//   enqueue()        ClaimIntake
//   grant_at_once()  ClaimIntake without a wait, ProcessAdopter, ExternalJobs
//   grant()          apply_effects(): the scheduler decides it
//   begin_drain()    LeaseManager::release(), on_gone(), ExternalJobs, mark_overdue(), and
//                    tick_lease(): its time or its client's time has passed
//   end()            of a waiting lease: LeaseManager::release(), on_gone(), tick_lease(), and
//                    ExternalJobs
//                    of a draining lease: DrainMonitor, ExternalJobs
//   restore()        ends a lease of an earlier boot in any state
//
// Each arrow is staged in LeaseStore; clients are notified of it once it is committed. If the
// commit fails, it never happened: LeaseRecovery reads what was stored.
//
// Thread: io.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "core/lease/lease_parts.h"

namespace gpuyard::lease {

class DrainMonitor;

class LeaseTransitions {
 public:
  // A waiting claim whose client has been away for this long ends (EndReason::unreachable), and so
  // does a grant that its client has not acknowledged.
  static constexpr Duration kReconnectTimeout = std::chrono::seconds(30);
  // The stream of a held lease may be away for this long while its process lives.
  static constexpr Duration kStreamGrace = std::chrono::seconds(5);
  // Leases are checked for times that have passed at this interval.
  static constexpr Duration kTickInterval = std::chrono::seconds(1);

  // The monitor is used only after the construction.
  LeaseTransitions(LeaseParts& parts, std::string boot_id, DrainMonitor& drains)
      : parts_(parts), boot_id_(std::move(boot_id)), drains_(drains) {}

  // Sets the one callback for every change of any lease once it is on the disk.
  void set_on_change(std::function<void(const Lease& now, LeaseState before)> callback) {
    on_change_ = std::move(callback);
  }
  void notify(const Lease& now, LeaseState before);

  // Returns a lease that is requested now.
  Lease make_lease(std::string id, std::uint32_t uid) const;
  GpuRequest gpu_request_of(std::uint32_t uid, const LeaseSpec&) const;

  // Puts a new lease into the queue. REQUIRES: Scheduler::check_satisfiable().
  void enqueue(Lease, const GpuRequest&, const std::optional<ProcessIdentity>& holder);
  // Grants a new lease whose ticket the scheduler has granted already.
  void grant_at_once(const Lease&, const std::optional<ProcessIdentity>& holder);
  void begin_drain(Lease, EndReason, const std::string& detail = {});
  void end(Lease, EndReason, const std::string& detail = {});
  // The lease ends with the process that it is bound to.
  void on_gone(const std::string& id, const ProcessKey&);
  // Takes over a stored lease. Returns false if it is of an earlier boot, and ends it.
  bool restore(const Lease&);

  void apply_effects(const Effects&);
  // The availability of the GPU may have changed.
  void refresh(const DeviceId&);
  // Ends the checks of times.
  void stop() { tick_timer_.reset(); }

 private:
  void add(const Lease&);
  void grant(const Claim&);
  void mark_overdue(Ticket);
  void restore_in_scheduler(const Lease&);
  void schedule_tick(TimePoint);
  void tick();
  void tick_lease(const Lease&);

  LeaseParts& parts_;
  Loop& loop_ = parts_.loop;
  const LeasePolicy& policy_ = parts_.policy;
  const std::string boot_id_;
  QuotaTracker& quotas_ = parts_.quotas;
  Scheduler& scheduler_ = parts_.scheduler;
  GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  HolderMonitor& holders_ = parts_.holders;
  ClientTracker& clients_ = parts_.clients;
  LiveLeases& live_ = parts_.live;
  const LeaseReadiness& readiness_ = parts_.readiness;
  DrainMonitor& drains_;
  std::function<void(const Lease&, LeaseState)> on_change_;
  std::optional<TimePoint> tick_at_;
  Subscription tick_timer_;
};

}  // namespace gpuyard::lease
