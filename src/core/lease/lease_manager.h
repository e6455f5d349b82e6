// The daemon's leases: claims of real processes, kept on disk before anybody hears of them, bound
// to their holders, and over only when their processes were seen gone. Lives on the io thread.
//
// Core decides: order, fairness and placement. Leases is the shell over it. A claim gets its place
// in the order once the kernel's handle of its process is known. A lease ends with what it is bound
// to: the command of `gpuyard run`, the process that asked, or a time. Then it drains: its GPUs go
// to another lease only when its processes were seen gone, by fresh lists of the driver and by
// /proc, and their memory is free. What cannot be seen is not gone.
//
// GpuPool knows why a GPU is not handed out, Holders when a process is gone, Clients whether a
// waiting client is still there, QuotaTracker how much one user may ask for. Leases knows no
// driver, /proc or SQL: it asks Observer and LeaseStorage.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "core/lease/client_tracker.h"
#include "core/lease/gpu_pool.h"
#include "core/lease/holder_monitor.h"
#include "core/lease/lease_policy.h"
#include "core/lease/lease_storage.h"
#include "core/lease/lease_store.h"
#include "core/lease/process_observer.h"
#include "core/lease/scheduler.h"

namespace gpuyard::lease {

struct Release {
  std::optional<Fence> fence = {};
  bool force = false;  // for administrators
  std::string reason = {};
};

// The result of a signal to the processes of a lease.
struct Signalled {
  Lease lease;                         // as it is afterwards
  std::vector<Unsignalled> left = {};  // the processes that run and did not get it
  bool checked = true;                 // false: the processes could not be looked for in time
};

// What a claim that does not wait would get now.
struct Offer {
  std::vector<DeviceId> free = {};    // a claim of one GPU would get one of these
  std::vector<DeviceId> chosen = {};  // the GPUs of this claim; empty: it would get none
  std::string why = {};               // why it would get none
  bool over_limit = false;            // it is because of the limit per user
};

struct QueueEntry {
  std::string lease;
  Outlook outlook;
};

class Leases {
 public:
  using Answer = std::function<void(Result<Lease>)>;
  using Done = std::function<void(const Result<void>&)>;
  using SignalAnswer = std::function<void(Result<Signalled>)>;

  // A waiting claim whose client has been away for this long is cancelled (Ending::unreachable).
  static constexpr Duration kReconnect = std::chrono::seconds(30);
  // How long the stream of a held lease may be away while its process lives.
  static constexpr Duration kGrace = std::chrono::seconds(5);
  // How often draining leases are checked for what is left.
  static constexpr Duration kDrainLook = std::chrono::milliseconds(250);
  // How often leases are checked for times that are over.
  static constexpr Duration kTick = std::chrono::seconds(1);
  // How long after a disk error the kept state is read again.
  static constexpr Duration kLoadAgain = std::chrono::seconds(2);
  // How long after a failed look at restored leases the next one follows.
  static constexpr Duration kAskAgain = std::chrono::milliseconds(500);
  // A detached lease has at least this time left after a restart.
  static constexpr Duration kLeastAfterRestart = std::chrono::seconds(60);
  // A lease that drains for longer than this is shown in notes().
  static constexpr Duration kLongDrain = std::chrono::seconds(30);
  // How long a signal waits for a look at the processes before it is answered without one.
  static constexpr Duration kSignalPatience = std::chrono::seconds(1);
  static constexpr Duration kLeastRenewal = std::chrono::seconds(1);  // less changes nothing
  static constexpr std::size_t kMostKnownProcesses = 4096;  // processes that have or had a lease

  // The references outlive it.
  Leases(Loop&, Observer&, LeaseStorage&, Policy, std::string boot_id);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Reads what was kept; nothing is granted before those leases were looked at.
  void start();
  // Grants nothing more. Held leases stay held: the next daemon finds them again.
  void stop();

  // Takes all GPUs that there are, at each reading.
  void on_gpus(const std::vector<PoolGpu>&);
  // Called when there are new lists of processes.
  void on_processes();

  // Each answers once the change is on the disk, never inside the call. Errors: invalid, not_found,
  // denied, conflict (another body under that id, a stale fence), busy (the queue is full),
  // unavailable (the journal is not there).
  // claim() answers with a lease that waits, is held or has ended. An empty id makes a new one.
  void claim(const Caller&, std::string id, const Wish&, const Answer&);
  void release(const Caller&, const std::string& id, const Release&, const Answer&);
  // Sends a signal to the processes of a draining lease that a fresh look finds, whether the answer
  // waits for that look or not. A lease in another state has none to signal.
  void signal(const Caller&, const std::string& id, int number, const SignalAnswer&);
  void renew(const Caller&, const std::string& id, Duration ttl, std::optional<Fence>,
             const Answer&);
  void add_member(const Caller&, const std::string& id, std::uint32_t pid, std::optional<Fence>,
                  const Answer&);
  void adopt(const Caller&, std::uint32_t pid, const std::string& note, const Answer&);
  // Makes a lease of the GPUs that Slurm has given to a job, whatever their condition. A job that
  // had one of them before is over. Begun again with the same GPUs, it is the same job.
  // Errc::conflict: somebody else's lease has one of them.
  void begin_job(const Caller&, const Job&, const Answer&);
  // Errc::not_found: the job has no held or draining lease. Errc::unavailable: the leases have not
  // been read.
  void end_job(const Caller&, const std::string& name, const Answer&);
  // Returns the last lease of a job that is on the disk.
  const Lease* find_job(std::string_view name) const;
  // Whether the lease drains because of a process or memory that was seen; if not, it may be
  // unknown what is left.
  bool left_something(std::string_view id) const { return leftover_.contains(id); }
  // Slurm hands out the GPUs from now on, unless the policy says who does.
  void observe_only();
  // Lets gpuyard lease the GPUs again, until observe_only(). Errors: conflict (the mode is
  // configured, or a Slurm job holds GPUs), unavailable.
  void stop_observing(const Done&);
  void cordon(const Caller&, const std::vector<DeviceId>&, const std::string& reason, const Done&);
  void uncordon(const Caller&, const std::vector<DeviceId>&, const Done&);
  // See GpuPool::override_withholding(). Overrides all of the GPUs or none.
  void override_withholding(const Caller&, const std::vector<DeviceId>&, const std::string& reason,
                            const Done&);

  // Marks a client as present for a claim, as long as the subscription lives. Attendance::stream: a
  // connection that is meant to stay, so that its end is the holder's.
  Subscription attend(const std::string& id, Attendance);
  // Tells each change of one lease once it is on the disk, never inside a call of this class.
  Subscription watch(const std::string& id, std::function<void(const Lease&)>);
  // One listener, told of every change of any lease once it is on the disk, and its former state.
  void on_change(std::function<void(const Lease& now, State before)> told) {
    told_ = std::move(told);
  }

  // One listener, asked for a draining lease once its processes are gone and their memory is free.
  // It returns what else is left; nothing: the GPUs go to another lease.
  void on_drained(std::function<std::optional<std::string>(const Lease&)> left) {
    left_beside_ = std::move(left);
  }

  // One listener, told of each process that is found on a GPU outside any lease.
  void on_squatter(std::function<void(const DeviceId&, const Seen&)> told) {
    squatter_told_ = std::move(told);
  }

  // Leases as they are on the disk: all that are not forgotten yet.
  const std::map<std::string, Lease, std::less<>>& leases() const { return journal_.kept(); }
  // Returns the leases on the disk that have GPUs.
  std::vector<const Lease*> with_gpus() const { return journal_.with_gpus(); }
  const Lease* find(std::string_view id) const;
  // Returns the user for whom the leases of a uid count.
  std::uint32_t person(std::uint32_t uid) const { return limits_.person(uid); }
  // Returns the lease as it is stored, or will be once pending writes complete.
  const Lease* find_decided(std::string_view id) const { return journal_.find(id); }
  // Checks that the lease is held, with this fence, and has the GPU. Errors: not_found, conflict;
  // unavailable until the leases have been read.
  Result<void> may_use(std::string_view id, std::optional<Fence>, const DeviceId&) const;
  std::vector<QueueEntry> outlooks(std::size_t most) const;
  // "the limit is 2 GPUs per user"
  std::string limit_text() const;
  // What the claim of this uid would get if it were made now; it is not. Errc::unavailable: nothing
  // is granted now.
  Result<Offer> offer(std::uint32_t uid, const Wish&) const;
  const GpuPool& gpus() const { return gpus_; }
  std::size_t pending_claimers() const { return core_.waiting().size(); }
  Fence last_fence() const { return core_.last_fence(); }  // the number of all grants, ever
  bool leased(const DeviceId& gpu) const { return gpus_.leased(gpu); }
  // Whether the stored leases have been read since the start.
  bool were_read() const { return !first_load_; }
  // Whether the journal is currently unreadable or unwritable.
  bool in_trouble() const { return trouble_.has_value(); }
  // Returns why nothing is granted now, if that is so.
  std::optional<Error> closed() const;
  // Returns why no claim is taken now, not even one that would wait.
  std::optional<Error> closed_to_claims() const;
  std::vector<std::string> notes() const;

 private:
  struct Adopter {
    Caller caller;
    Identity who;
    std::string note;
    Answer answer;
    std::string lease = {};  // the ID that its lease will have
  };
  // The processes that an adoption is about: the process and its descendants, as far as they use
  // GPUs that are in no lease.
  struct ProcessTree {
    std::map<DeviceId, std::vector<Process>> own = {};    // of the same user, by GPU
    std::vector<std::pair<DeviceId, Seen>> foreign = {};  // of other users
    GpuSet gpus = {};                                     // those of `own`
  };
  enum class Standing : std::uint8_t {
    idle,      // not started, or stopped
    loading,   // it is not known yet what was kept
    adopting,  // the processes of the kept leases are being looked for
    open,
  };

  // The restart from what was kept.
  void load();
  void on_loaded(Result<Kept>);
  void restore(const Lease&);
  void restore_in_core(const Lease&);
  void rebind(const std::string& id, const Process&);
  void rebind_again();
  void look_at_restored();
  void on_restored_seen(const Sight&);
  void open_if_ready();
  void on_lost(const Error&);

  // Decisions of the core.
  void follow(const Effects&);
  void on_granted(const Claim&);
  void on_overdue(Ticket);
  void refresh(const DeviceId&);
  void reach_anew();

  // The steps of one lease.
  void decide(const Caller&, const std::optional<Identity>& holder, const std::string& id,
              const Wish&, const Answer&);
  void try_now(const Caller&, const std::optional<Identity>& holder, Lease, const Terms&,
               const Answer&);
  void repeat(const Caller&, const Lease& known, const Wish&, const Answer&);
  void look_for_adopters();
  void adopt_on(const Adopter&, const Sight&);
  ProcessTree tree_of(const Adopter&, const Sight&) const;
  std::optional<Error> bar_to_adopting(const Adopter&, const ProcessTree&) const;
  void force(const Caller&, const Lease&, const std::string& reason, const Answer&);
  bool exceeds_quota(std::uint32_t uid, std::size_t more) const;
  void let_go(Lease, Ending, const std::string& by, const std::string& why = {});
  void end(Lease, Ending, const std::string& by, const std::string& why = {});
  void on_gone(const std::string& id, const Process&);
  Result<Lease> own(const Caller&, const std::string& id, std::optional<Fence>) const;
  Terms terms_of(std::uint32_t uid, const Wish&) const;
  std::optional<Error> closed_to_changes() const;
  // Set while Slurm allocates the GPUs. With advice for a claim of so many of them; 0: for none.
  std::optional<Error> observed(std::size_t gpus = 0) const;
  void end_waiting();
  std::string new_job_id(const std::string& name) const;
  void refuse(const Error&, const Answer&);
  void answer_when_kept(const std::string& id, const Answer&);
  void tell(const Lease& now, State before);

  // Changes without a call: time, processes, GPUs.
  void wake_by(TimePoint);
  void tick();
  void tick_lease(const Lease&);
  void drain();
  void on_drain_seen(const Sight&);
  void drain_one(const std::string& id, const Sight&);
  void look_at_new();
  void look_outside(const Sight&);
  std::vector<Suspect> suspects(bool draining_only) const;

  struct Signal {
    int number = 0;
    std::optional<std::uint32_t> only_of = {};  // a user; empty: an administrator sends it
    std::vector<SignalAnswer> waiting = {};
    Subscription deadline = {};
  };
  using SignalPtr = std::shared_ptr<Signal>;
  void send_signals(const Lease&, const Sight&);
  void answer_signal(const std::string& id, const SignalPtr&, const std::vector<Unsignalled>& left,
                     bool checked);
  void drop_signals(const std::string& id, bool checked);
  // What is to be known of restored leases before anything is granted.
  struct Restoring {
    std::size_t to_rebind = 0;  // processes
    std::vector<std::pair<std::string, Process>> rebind_later = {};
    bool looking = false;
    bool seen = false;  // who uses the GPUs
    Subscription timer = {};
  };

  Loop& loop_;
  Observer& observer_;
  const Policy policy_;
  const std::string boot_id_;
  QuotaTracker limits_;
  Core core_;
  GpuPool gpus_;
  Journal journal_;
  Holders holders_;
  Clients clients_;
  std::map<Ticket, std::string> by_ticket_;
  std::function<void(const Lease&, State)> told_;
  std::function<std::optional<std::string>(const Lease&)> left_beside_;
  std::function<void(const DeviceId&, const Seen&)> squatter_told_;

  Standing standing_ = Standing::idle;
  bool first_load_ = true;
  Restoring restoring_;
  std::optional<Error> trouble_;
  std::uint64_t life_ = 0;  // an answer to an earlier life is ignored
  TimePoint opened_{};

  // One look of each kind at a time.
  bool looking_ = false;
  bool looking_at_new_ = false;
  bool looking_for_adopters_ = false;
  bool drain_looking_ = false;
  bool drain_again_ = false;       // a signal came during the look, which may not be of its lease
  std::vector<Adopter> adopters_;  // callers whose GPUs the next look will find
  std::map<std::string, std::vector<Process>> alive_;      // as last seen, by lease
  std::set<std::string, std::less<>> leftover_;            // see left_something()
  std::map<std::string, std::vector<SignalPtr>> signals_;  // to be sent to draining leases
  TimePoint drained_since_{};

  std::optional<TimePoint> tick_at_;
  Subscription tick_timer_;
  Subscription drain_timer_;
  Subscription load_timer_;
  Lifetime here_;
};

}  // namespace gpuyard::lease
