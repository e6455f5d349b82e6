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
// The states of a lease, and the function that makes each arrow:
//
//   enqueue_claim()      claim_immediately(), complete_adoption(), begin_job()
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
//   grant()        apply_effects(): the scheduler decides it. The three functions at the top grant
//   a
//                  lease in the turn in which they stage it; claim_immediately() without a free GPU
//                  returns an ended one that is never stored
//   begin_drain()  release(), on_gone(), begin_job(), mark_overdue(), and tick_lease(): its time or
//                  its client's time has passed
//   end()          of a waiting lease: release(), on_gone(), cancel_waiting(), tick_lease()
//                  of a draining lease: check_drain(), force(), begin_job()
//   restore()      ends a lease of an earlier boot in any state
//
// Each arrow is staged in LeaseStore; clients are notified of it once it is committed. If the
// commit fails, it never happened: on_store_failed() drops what is staged, and load() reads what
// was stored.
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
#include "core/lease/client_tracker.h"
#include "core/lease/gpu_pool.h"
#include "core/lease/holder_monitor.h"
#include "core/lease/lease_policy.h"
#include "core/lease/lease_readiness.h"
#include "core/lease/lease_storage.h"
#include "core/lease/lease_store.h"
#include "core/lease/live_leases.h"
#include "core/lease/process_observer.h"
#include "core/lease/quota_tracker.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct ReleaseOptions {
  std::optional<Fence> fence = {};
  bool force = false;  // for administrators
  std::string reason = {};
};

// The result of a signal to the processes of a lease.
struct SignalResult {
  Lease lease;                               // as it is afterwards
  std::vector<SignalFailure> failures = {};  // the processes that run and did not get it
  bool checked = true;                       // false: the processes could not be observed in time
};

// The GPUs that a claim without waiting would get now.
struct Offer {
  std::vector<DeviceId> free = {};    // a claim of one GPU would get one of these
  std::vector<DeviceId> chosen = {};  // the GPUs of this claim; empty: it would get none
  std::string reason = {};            // why it would get none
  bool over_limit = false;            // it is because of the limit per user
};

struct QueueEntry {
  std::string lease;
  QueuePosition queue_position;
};

class LeaseManager {
 public:
  using OnLease = lease::OnLease;
  using OnDone = LeaseStore::OnDone;
  using OnSignal = std::function<void(Result<SignalResult>)>;

  // A waiting claim whose client has been away for this long ends (EndReason::unreachable), and so
  // does a grant that its client has not acknowledged.
  static constexpr Duration kReconnectTimeout = std::chrono::seconds(30);
  // The stream of a held lease may be away for this long while its process lives.
  static constexpr Duration kStreamGrace = std::chrono::seconds(5);
  // A lease that begins to drain is checked for leftovers after this time, together with all that
  // begin to drain meanwhile. So the answer to a release does not share the processor with the
  // search for processes, unless the disk takes longer.
  static constexpr Duration kFirstDrainPollDelay = std::chrono::milliseconds(5);
  // Then draining leases are checked at this interval; 5 s after the last has begun to drain, at
  // four times of it.
  static constexpr Duration kDrainPollInterval = std::chrono::milliseconds(250);
  // Leases are checked for times that have passed at this interval.
  static constexpr Duration kTickInterval = std::chrono::seconds(1);
  // The stored state is read again this long after a disk error.
  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(2);
  // Restored leases are observed again this long after a failed observation.
  static constexpr Duration kRecoveryRetryDelay = std::chrono::milliseconds(500);
  // A detached lease has at least this time left after a restart.
  static constexpr Duration kMinTimeAfterRestart = std::chrono::seconds(60);
  // A lease that drains for longer than this is shown in notes().
  static constexpr Duration kLongDrainThreshold = std::chrono::seconds(30);
  // A signal is answered without an observation of the processes after this time.
  static constexpr Duration kSignalTimeout = std::chrono::seconds(1);
  static constexpr Duration kMinRenewal = std::chrono::seconds(1);  // less changes nothing
  static constexpr std::size_t kMaxKnownProcesses = 4096;  // processes that have or had a lease

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
  void on_processes();

  // Each answers once the change is on the disk, never inside the call. Errors: invalid, not_found,
  // denied, conflict (another body under that id, a stale fence), busy (the queue is full),
  // unavailable (the storage failed). claim() answers with a lease that waits, is held or has
  // ended. An empty id makes a new one.
  void claim(const Caller&, std::string id, const LeaseSpec&, const OnLease&);
  void release(const Caller&, const std::string& id, const ReleaseOptions&, const OnLease&);
  // Sends a signal to the processes of a draining lease that a fresh observation finds, whether the
  // reply waits for it or not. A lease in another state has none to signal.
  void signal(const Caller&, const std::string& id, int number, const OnSignal&);
  void renew(const Caller&, const std::string& id, Duration ttl, std::optional<Fence>,
             const OnLease&);
  void add_member(const Caller&, const std::string& id, std::uint32_t pid, std::optional<Fence>,
                  const OnLease&);
  void adopt(const Caller&, std::uint32_t pid, const std::string& note, const OnLease&);
  // Makes a lease of the GPUs that an external allocator has given to a job, whatever their
  // condition. A job that had one of them before has ended. A repeated call with the same GPUs is
  // about the same job. Errc::conflict: another user's lease has one of them.
  void begin_job(const Caller&, const ExternalJob&, const OnLease&);
  // Errc::not_found: the job has no held or draining lease. Errc::unavailable: the leases have not
  // been read.
  void end_job(const Caller&, const std::string& name, const OnLease&);
  // Returns the last lease of a job that is on the disk.
  const Lease* find_job(std::string_view name) const;
  // Whether the lease drains because of a process or memory that was seen; if not, it may be
  // unknown what is left.
  bool has_leftover(std::string_view id) const { return with_leftover_.contains(id); }
  // The allocator has reported: it has the GPUs from now on, unless the policy sets the mode. Of
  // several allocators, messages name the last one.
  void accept_report(Allocator);
  // Lets gpuyard lease the GPUs again, until accept_report(). Errors: conflict (the mode is
  // configured, or a job holds GPUs), unavailable.
  void stop_observing(const OnDone&);
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
    on_change_ = std::move(callback);
  }

  // Sets the one check that is called for a draining lease once its processes are gone and their
  // memory is free. It returns what else is left; nothing: the GPUs go to another lease.
  void set_drain_check(std::function<std::optional<std::string>(const Lease&)> check) {
    drain_check_ = std::move(check);
  }

  // Sets the one callback for each unleased process that is found on a GPU.
  void set_on_unleased_process(
      std::function<void(const DeviceId&, const ObservedProcess&)> callback) {
    on_unleased_process_ = std::move(callback);
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
  Result<Offer> offer(std::uint32_t uid, const LeaseSpec&) const;
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

  // The restart from the stored leases.
  void load();
  void on_loaded(Result<SavedLeases>);
  void restore(const Lease&);
  void restore_in_scheduler(const Lease&);
  void rebind(const std::string& id, const ProcessKey&);
  void retry_rebind();
  void observe_restored();
  void on_restored_observed(const Observation&);
  void open_if_ready();
  void on_store_failed(const Error&);

  // Decisions of the scheduler.
  void apply_effects(const Effects&);
  void grant(const Claim&);
  void mark_overdue(Ticket);
  void refresh(const DeviceId&);
  void recompute_eligibility();

  // The steps of one lease.
  void enqueue_claim(const Caller&, const std::optional<ProcessIdentity>& holder,
                     const std::string& id, const LeaseSpec&, const OnLease&);
  void claim_immediately(const Caller&, const std::optional<ProcessIdentity>& holder, Lease,
                         const GpuRequest&, const OnLease&);
  void answer_repeated_claim(const Caller&, const Lease& known, const LeaseSpec&, const OnLease&);
  void observe_adoptions();
  void complete_adoption(const PendingAdoption&, const Observation&);
  ProcessTree tree_of(const PendingAdoption&, const Observation&) const;
  std::optional<Error> check_adoptable(const PendingAdoption&, const ProcessTree&) const;
  void force(const Caller&, const Lease&, const std::string& reason, const OnLease&);
  void begin_drain(Lease, EndReason, const std::string& by, const std::string& detail = {});
  void end(Lease, EndReason, const std::string& by, const std::string& detail = {});
  void on_gone(const std::string& id, const ProcessKey&);
  Result<Lease> find_owned(const Caller&, const std::string& id, std::optional<Fence>) const;
  GpuRequest gpu_request_of(std::uint32_t uid, const LeaseSpec&) const;
  void observe_only(Allocator);
  void cancel_waiting();
  std::string new_job_id(const std::string& name) const;
  void notify(const Lease& now, LeaseState before);

  // Changes without a call: time, processes, GPUs.
  void schedule_tick(TimePoint);
  void tick();
  void tick_lease(const Lease&);
  void schedule_drain_poll(TimePoint);
  void poll_drains();
  void on_drains_observed(const Observation&);
  void check_drain(const std::string& id, const Observation&);
  void observe_new_gpus();
  void update_unleased(const Observation&);

  struct Signal {
    int number = 0;
    std::optional<std::uint32_t> only_uid = {};  // a user; empty: an administrator sends it
    std::vector<OnSignal> waiters = {};
    Subscription timeout_timer = {};
  };
  using SignalPtr = std::shared_ptr<Signal>;
  void send_signals(const Lease&, const Observation&);
  void answer_signal(const std::string& id, const SignalPtr&,
                     const std::vector<SignalFailure>& failures, bool checked);
  void drop_signals(const std::string& id, bool checked);
  // The state of restored leases that must be known before anything is granted.
  struct Recovery {
    std::size_t pending_rebinds = 0;  // processes
    std::vector<std::pair<std::string, ProcessKey>> failed_rebinds = {};
    bool is_observing = false;
    bool is_observed = false;  // who uses the GPUs
    Subscription timer = {};
  };

  Loop& loop_;
  ProcessObserver& observer_;
  const LeasePolicy policy_;
  const std::string boot_id_;
  QuotaTracker quotas_;
  Scheduler scheduler_;
  GpuPool gpus_;
  LeaseStore store_;
  HolderMonitor holders_;
  ClientTracker clients_;
  LiveLeases live_;
  LeaseReadiness readiness_;
  std::function<void(const Lease&, LeaseState)> on_change_;
  std::function<std::optional<std::string>(const Lease&)> drain_check_;
  std::function<void(const DeviceId&, const ObservedProcess&)> on_unleased_process_;

  Recovery recovery_;

  // One observation of each kind at a time.
  bool is_observing_ = false;
  bool is_observing_new_gpus_ = false;
  bool is_observing_adoptions_ = false;
  bool is_polling_drains_ = false;
  bool repeat_drain_poll_ = false;                  // the poll under way may not cover all leases
  std::vector<PendingAdoption> pending_adoptions_;  // callers whose GPUs the next observation finds
  std::set<std::string, std::less<>> with_leftover_;       // see has_leftover()
  std::map<std::string, std::vector<SignalPtr>> signals_;  // to be sent to draining leases
  TimePoint draining_since_{};  // when the last lease began to drain, or the daemon to poll

  std::optional<TimePoint> tick_at_;
  Subscription tick_timer_;
  TimePoint drain_poll_at_{};
  Subscription drain_timer_;
  Subscription load_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::lease
