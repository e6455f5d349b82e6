// The daemon's leases: claims of real processes, committed before any client is notified, bound to
// their holders, and ended only when their processes were seen gone; but for an administrator who
// forces the end (ReleaseOptions), a job that takes its GPUs (begin_job()), and a reboot.
//
// Scheduler decides: order, fairness and placement. LeaseManager is the shell over it. A claim
// enters the queue once the kernel's handle of its process is known. A lease ends with what it is
// bound to: the command of `gpuyard run`, the process that made the claim, or a time. Then it
// drains: its GPUs go to another lease only when its processes were seen gone, by fresh lists of
// the driver and by /proc, and their memory is free. A process that cannot be inspected counts as
// alive.
//
// LeaseManager checks requests about leases and GPUs, and owns the classes that do the rest:
// ClaimIntake, ProcessAdopter and ExternalJobs make leases, LeaseTransitions has their states,
// DrainMonitor ends them, PoolUpdater observes the GPUs, LeaseRecovery reads what is stored.
// LeaseParts are what these share: GpuPool knows why a GPU is withheld, HolderMonitor when a
// process is gone, ClientTracker whether a waiting client is still present, QuotaTracker how much
// one user may claim. None knows a driver, /proc or SQL: they use ProcessObserver and LeaseStorage.
//
// Thread: io.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/lease/claim_intake.h"
#include "core/lease/drain_monitor.h"
#include "core/lease/external_jobs.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_reader.h"
#include "core/lease/lease_recovery.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"
#include "core/lease/process_adopter.h"

namespace gpuyard::lease {

struct ReleaseOptions {
  std::optional<Fence> fence = {};
  bool force = false;  // for administrators
  std::string reason = {};
};

class LeaseManager : public LeaseReader {
 public:
  using OnLease = lease::OnLease;
  using OnDone = LeaseStore::OnDone;
  using OnSignal = DrainMonitor::OnSignal;

  // See LeaseTransitions and DrainMonitor.
  static constexpr Duration kReconnectTimeout = LeaseTransitions::kReconnectTimeout;
  static constexpr Duration kStreamGrace = LeaseTransitions::kStreamGrace;
  static constexpr Duration kFirstDrainPollDelay = DrainMonitor::kFirstPollDelay;
  static constexpr Duration kDrainPollInterval = DrainMonitor::kPollInterval;
  static constexpr Duration kSignalTimeout = DrainMonitor::kSignalTimeout;
  static constexpr Duration kLoadRetryDelay = LeaseRecovery::kLoadRetryDelay;
  static constexpr Duration kMinRenewal = std::chrono::seconds(1);  // less changes nothing

  // The loop, the observer and the storage outlive the manager.
  LeaseManager(Loop&, ProcessObserver&, LeaseStorage&, LeasePolicy, std::string boot_id);
  LeaseManager(const LeaseManager&) = delete;
  LeaseManager& operator=(const LeaseManager&) = delete;

  // Reads the stored leases; nothing is granted before their processes were observed.
  void start() { recovery_.start(); }
  // Grants nothing more. Held leases stay held: the next daemon finds them again.
  void stop() { recovery_.stop(); }

  // Accepts all present GPUs, at each reading.
  void on_gpus(const std::vector<PoolGpu>&);
  // Called when there are new lists of processes.
  void on_processes() { updater_.on_processes(); }

  // Each answers once the change is on the disk, never inside the call. Errors: invalid, not_found,
  // denied, conflict (another body under that id, a stale fence), busy (the queue is full),
  // unavailable (the storage failed). claim() answers with a lease that waits, is held or has
  // ended. An empty id makes a new one.
  void claim(const Caller& caller, std::string id, const LeaseSpec& spec, const OnLease& on_lease) {
    intake_.claim(caller, std::move(id), spec, on_lease);
  }
  void release(const Caller&, const std::string& id, const ReleaseOptions&, const OnLease&);
  // Sends a signal to the processes of a draining lease that a fresh observation finds, whether the
  // reply waits for it or not. A lease in another state has none to signal.
  void signal(const Caller&, const std::string& id, int number, const OnSignal&);
  void renew(const Caller&, const std::string& id, Duration ttl, std::optional<Fence>,
             const OnLease&);
  void add_member(const Caller&, const std::string& id, std::uint32_t pid, std::optional<Fence>,
                  const OnLease&);
  void adopt(const Caller& caller, std::uint32_t pid, const std::string& note,
             const OnLease& on_lease) {
    adopter_.adopt(caller, pid, note, on_lease);
  }
  // Makes a lease of the GPUs that an external allocator has given to a job, whatever their
  // condition. A job that had one of them before has ended. A repeated call with the same GPUs is
  // about the same job. Errc::conflict: another user's lease has one of them.
  void begin_job(const ExternalJob& job, const OnLease& on_lease) { jobs_.begin(job, on_lease); }
  // Errc::not_found: the job has no held or draining lease. Errc::unavailable: the leases have not
  // been read.
  void end_job(const Caller&, const std::string& name, const OnLease&);
  // The allocator has reported: it has the GPUs from now on, unless the policy sets the mode. Of
  // several allocators, messages name the last one.
  void accept_report(Allocator allocator) { jobs_.accept_report(allocator); }
  // Lets gpuyard lease the GPUs again, until accept_report(). Errors: conflict (the mode is
  // configured, or a job holds GPUs), unavailable.
  void stop_observing(const OnDone& on_done) { jobs_.stop_observing(on_done); }
  void cordon(const Caller&, const std::vector<DeviceId>&, const std::string& reason,
              const OnDone&);
  void uncordon(const Caller&, const std::vector<DeviceId>&, const OnDone&);
  // See GpuPool::override_withholding(). Overrides all of the GPUs or none.
  void override_withholding(const Caller&, const std::vector<DeviceId>&, const std::string& reason,
                            const OnDone&);

  // Marks a client as present for a claim, as long as the subscription lives. PresenceKind::stream:
  // a connection that is meant to stay, so that its end is the holder's.
  Subscription mark_present(const std::string& id, PresenceKind);
  // Notifies of each change of one lease once it is on the disk, never inside a call of this class.
  Subscription subscribe(const std::string& id, std::function<void(const Lease&)>);
  // Sets the one callback for every change of any lease once it is on the disk, with its former
  // state.
  void set_on_change(std::function<void(const Lease& now, LeaseState before)> callback) {
    transitions_.set_on_change(std::move(callback));
  }

  // Sets the one check that is called for a draining lease once its processes are gone and their
  // memory is free. It returns what else is left; nothing: the GPUs go to another lease.
  void set_drain_check(std::function<std::optional<std::string>(const Lease&)> check) {
    drains_.set_check(std::move(check));
  }

  // Sets the one callback for each unleased process that is found on a GPU.
  void set_on_unleased_process(
      std::function<void(const DeviceId&, const ObservedProcess&)> callback) {
    updater_.set_on_unleased_process(std::move(callback));
  }

  // Returns what the claim of this uid would get now, without making it. Errc::unavailable: nothing
  // is granted now.
  Result<Offer> offer(std::uint32_t uid, const LeaseSpec& spec) const {
    return intake_.offer(uid, spec);
  }

 private:
  Result<Lease> find_owned(const Caller&, const std::string& id, std::optional<Fence>) const;

  LeaseParts parts_;
  LeaseTransitions transitions_;
  PoolUpdater updater_;
  DrainMonitor drains_;
  ClaimIntake intake_;
  ProcessAdopter adopter_;
  ExternalJobs jobs_;
  LeaseRecovery recovery_;
  Loop& loop_ = parts_.loop;
  GpuPool& gpus_ = parts_.gpus;
  LeaseStore& store_ = parts_.store;
  const LeaseReadiness& readiness_ = parts_.readiness;
};

}  // namespace gpuyard::lease
