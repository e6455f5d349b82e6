// The daemon's leases: claims of real processes, committed before any client is notified, bound to
// their holders, and ended only when their processes were seen gone; but for an administrator who
// forces the end (force()), a job that takes its GPUs (begin_job()), and a reboot.
//
// Scheduler decides: order, fairness and placement. LeaseManager is the shell over it. A claim
// enters the queue once the kernel's handle of its process is known. A lease ends with what it is
// bound to: the command of `gpuyard run`, the process that made the claim, or a time. Then it
// drains: its GPUs go to another lease only when its processes were seen gone, by fresh lists of
// the driver and by /proc, and their memory is free. A process that cannot be inspected counts as
// alive.
//
// GpuPool knows why a GPU is withheld, HolderMonitor when a process is gone, ClientTracker whether
// a waiting client is still present, QuotaTracker how many claims one user may have waiting and how
// often they come; how many GPUs one user may hold, Scheduler knows. LeaseManager knows no driver,
// /proc or SQL: it uses ProcessObserver and LeaseStorage.
//
// Thread: io.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/lease/claim_intake.h"
#include "core/lease/drain_monitor.h"
#include "core/lease/external_jobs.h"
#include "core/lease/lease_parts.h"
#include "core/lease/lease_transitions.h"
#include "core/lease/pool_updater.h"
#include "core/lease/process_adopter.h"

namespace gpuyard::lease {

struct ReleaseOptions {
  std::optional<Fence> fence = {};
  bool force = false;  // for administrators
  std::string reason = {};
};

struct QueueEntry {
  std::string lease;
  QueuePosition queue_position;
};

class LeaseManager {
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
  // The stored state is read again this long after a disk error.
  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(2);
  // Restored leases are observed again this long after a failed observation.
  static constexpr Duration kRecoveryRetryDelay = std::chrono::milliseconds(500);
  // A detached lease has at least this time left after a restart.
  static constexpr Duration kMinTimeAfterRestart = std::chrono::seconds(60);
  // A lease that drains for longer than this is shown in notes().
  static constexpr Duration kLongDrainThreshold = std::chrono::seconds(30);
  static constexpr Duration kMinRenewal = std::chrono::seconds(1);  // less changes nothing

  // The loop, the observer and the storage outlive the manager.
  LeaseManager(Loop&, ProcessObserver&, LeaseStorage&, LeasePolicy, std::string boot_id);
  LeaseManager(const LeaseManager&) = delete;
  LeaseManager& operator=(const LeaseManager&) = delete;

  // Reads the stored leases; nothing is granted before their processes were observed.
  void start();
  // Grants nothing more. Held leases stay held: the next daemon finds them again.
  void stop();

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
  void begin_job(const Caller& caller, const ExternalJob& job, const OnLease& on_lease) {
    jobs_.begin(caller, job, on_lease);
  }
  // Errc::not_found: the job has no held or draining lease. Errc::unavailable: the leases have not
  // been read.
  void end_job(const Caller&, const std::string& name, const OnLease&);
  // Returns the last lease of a job that is on the disk.
  const Lease* find_job(std::string_view name) const;
  // Whether the lease drains because of a process or memory that was seen; if not, it may be
  // unknown what is left.
  bool has_leftover(std::string_view id) const { return drains_.has_leftover(id); }
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

  // Leases as they are on the disk: all that are not pruned yet.
  const std::map<std::string, Lease, std::less<>>& leases() const { return store_.committed(); }
  // Returns the leases on the disk that have GPUs.
  std::vector<const Lease*> leases_with_gpus() const { return store_.leases_with_gpus(); }
  const Lease* find(std::string_view id) const;
  // Returns the user for whom the leases of a uid count.
  std::uint32_t quota_owner(std::uint32_t uid) const { return quotas_.quota_owner(uid); }
  // Returns the lease as it is stored, or will be once pending writes complete.
  const Lease* find_latest(std::string_view id) const { return store_.find_latest(id); }
  // Checks that the lease is held, with this fence, and has the GPU. Errors: not_found, conflict;
  // unavailable until the leases have been read.
  Result<void> check_holds_gpu(std::string_view id, std::optional<Fence>, const DeviceId&) const;
  std::vector<QueueEntry> queue_entries(std::size_t limit) const;
  // "the limit is 2 GPUs per user"
  std::string limit_text() const { return quotas_.gpu_limit_text(); }
  // Returns what the claim of this uid would get now, without making it. Errc::unavailable: nothing
  // is granted now.
  Result<Offer> offer(std::uint32_t uid, const LeaseSpec& spec) const {
    return intake_.offer(uid, spec);
  }
  const GpuPool& gpus() const { return gpus_; }
  std::size_t waiting_claim_count() const { return scheduler_.waiting_claims().size(); }
  Fence last_fence() const { return scheduler_.last_fence(); }  // the number of all grants, ever
  bool is_leased(const DeviceId& gpu) const { return gpus_.is_leased(gpu); }
  // Whether the stored leases have been read since the start.
  bool has_loaded() const { return readiness_.has_loaded(); }
  // Whether the storage is currently unreadable or unwritable.
  bool has_store_error() const { return readiness_.has_store_error(); }
  // Returns why nothing is granted now, if that is so.
  std::optional<Error> grant_error() const { return readiness_.grant_error(); }
  // Returns why no claim is accepted now, not even one that would wait.
  std::optional<Error> claim_error() const { return readiness_.claim_error(); }
  std::vector<std::string> notes() const;

 private:
  // The restart from the stored leases.
  void load();
  void on_loaded(Result<SavedLeases>);
  void restore(const Lease&);
  void rebind(const std::string& id, const ProcessKey&);
  void retry_rebind();
  void observe_restored();
  void on_restored_observed(const Observation&);
  void open_if_ready();
  void on_store_failed(const Error&);

  Result<Lease> find_owned(const Caller&, const std::string& id, std::optional<Fence>) const;

  // The state of restored leases that must be known before anything is granted.
  struct Recovery {
    std::size_t pending_rebinds = 0;  // processes
    std::vector<std::pair<std::string, ProcessKey>> failed_rebinds = {};
    bool is_observing = false;
    bool is_observed = false;  // who uses the GPUs
    Subscription timer = {};
  };

  LeaseParts parts_;
  LeaseTransitions transitions_;
  PoolUpdater updater_;
  DrainMonitor drains_;
  ClaimIntake intake_;
  ProcessAdopter adopter_;
  ExternalJobs jobs_;

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

  Recovery recovery_;
  Subscription load_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
