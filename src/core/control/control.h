// The daemon's half of control: who wants what of which GPU, checked, done in order, noted down
// before it is done, and put back. Lives on the io thread.
//
// Each GPU has a queue of changes, of which one is carried out at a time. A change alters the
// claims on a setting, that is who wants what until when. The lowest claim on a power limit is in
// force; other settings have one owner. Then the GPU is brought to what the claims say, always in
// the same steps: read what is there, if it is not known; put the new state on the disk, with the
// baseline and with what is about to be written; have the commander write it, which checks the
// range once more and reads back; note that. A daemon that is killed anywhere knows at its next
// start what may have been written. Locked clocks cannot be read back: they are written again, and
// called assumed. docs/control_crashes.md has every write of every scenario, killed at every
// commit.
//
// Control knows no driver and no disk: it asks Commander and ControlArchive. A reset ends the
// driver-host first, because NVML can reset nothing that is open.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/shares.h"
#include "base/token_bucket.h"
#include "control/audit.h"
#include "control/gpu_queue.h"
#include "control/operations.h"
#include "control/plan.h"

namespace gpuyard::control {

struct Policy {
  bool enabled = false;
  bool restore_on_stop = false;  // else settings stay in force while no daemon runs
  std::int64_t changes_a_minute = Shares().changes_a_minute;  // of one who is no administrator
};

class Control {
 public:
  // So long does a caller wait; the change goes on, and its operation tells how it ends.
  static constexpr Duration kPatience = std::chrono::seconds(20);
  static constexpr Duration kFarewell = std::chrono::seconds(1);
  static constexpr Duration kLoadAgain = std::chrono::seconds(5);
  // So long does who asks right after the start wait for what was kept, so many at a time.
  static constexpr Duration kLoadPatience = std::chrono::seconds(5);
  static constexpr std::size_t kMostEarly = 64;
  static constexpr std::size_t kMostLooks = 512;  // that wait for one answer

  using Changes = ChangeCollector::Changes;
  using Heard = ChangeCollector::Heard;
  using Seen = std::function<void(const Result<SettingState>&)>;

  // These outlive it.
  Control(Loop&, Commander&, ControlArchive&, Policy, std::string boot_id, std::string epoch);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Reads what was kept; nothing is done before. Who asks meanwhile waits for it.
  void start();
  // Takes nothing more, lets what waits be done, puts back what the policy says, and answers the
  // rest. done() comes after kFarewell at the latest, never inside the call.
  void stop(std::function<void()> done);

  // One change of each GPU, or one of each of its settings; in the order of the request. Errors, of
  // the request as a whole: denied (control is off, or force without being an admin), invalid,
  // not_found, unavailable. Heard once, never inside the call.
  void ask(const Request&, const Heard&);
  // The same, without waiting for more than the place in the queue.
  Result<Changes> send(const Request&);

  // What the driver says of a setting now. Changes nothing, needs no switch; waits for its turn
  // behind the commands of that GPU, for ever if the driver never answers.
  void look(const DeviceId&, SettingKind, Seen);

  // What somebody was refused before it came here, for the audit.
  void note_refusal(const Asker& asker, const std::string& action, const Error& why) {
    trail_.note_refusal(asker, action, why);
  }

  // One listener, told of every operation that is over.
  void on_operation(std::function<void(const Operation&)> told) { told_ = std::move(told); }

  // Some right may have ended: what waits without one is refused.
  void drop_lapsed();

  void on_fleet(const Fleet&);
  void on_reply(const CommandReply&);
  void on_host_down();

  const Policy& policy() const { return policy_; }
  // False: what was kept is not read yet.
  bool loaded() const { return loaded_; }
  const Holding* holding(const DeviceId&, SettingKind) const;
  const Operations& operations() const { return operations_; }
  ControlArchive& archive() { return archive_; }
  // What is not as it should be, for people.
  std::vector<std::string> notes() const;

 private:
  struct Looking {
    DeviceId gpu;
    SettingKind kind{};
    std::vector<Seen> seen;
  };
  using Prepared = std::vector<std::pair<GpuQueue*, PendingChange>>;

  Result<Prepared> prepare(const Request&);
  Result<void> may_ask(const Request&);
  void load();
  void on_loaded(Result<std::vector<Holding>>);
  void answer_early();
  void adopt(Holding);
  bool begins(const PendingChange&);
  void on_over(const DeviceInfo&, const PendingChange&, const std::optional<Change>&,
               TimePoint began);
  void take_back(const Request&, const Change&, std::vector<Claim> before,
                 const std::function<void(const Change&)>& done);
  void expire_in_time();
  void expire();
  bool quiet_but_for(const DeviceId&) const;

  Loop& loop_;
  Commander& commander_;
  ControlArchive& archive_;
  const Policy policy_;
  QueueEnvironment environment_;
  AuditTrail trail_;
  RateOfEach<std::string> changes_of_;  // by person
  Operations operations_;
  std::function<void(const Operation&)> told_;
  Resetting resetting_;
  std::map<DeviceId, std::unique_ptr<GpuQueue>> queues_;
  std::map<DeviceId, std::vector<Holding>> homeless_;  // of GPUs that are not there
  std::map<std::uint64_t, Looking> looks_;
  std::set<DeviceId> settled_;  // open since the driver-host greeted
  bool loaded_ = false;
  std::optional<Error> unloaded_;
  std::vector<std::pair<Request, Heard>> early_;  // asked before it was loaded
  bool early_wait_ = true;
  Subscription early_timer_;
  std::function<void()> stopped_;
  Subscription expiry_;
  TimePoint expire_from_{};
  Subscription load_timer_;
  Subscription farewell_;
  Lifetime here_;
};

}  // namespace gpuyard::control
