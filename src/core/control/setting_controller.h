// The daemon's half of control: checks every change of a GPU's settings, records it before it is
// made, makes the changes in order, and puts settings back. Lives on the io thread.
//
// Each GPU has a queue of changes, of which one is carried out at a time. A change alters the
// claims on a setting: which owner wants which value until when. The lowest claim on a power limit
// is in force; other settings have one owner. Control then brings the GPU to the claimed value,
// always in the same steps. It reads the present value, if it is not known. It saves the new state
// to the disk, with the baseline and the value about to be written. The commander checks the range
// once more, writes the value and reads it back. Control records the result. A daemon that is
// killed at any point knows at its next start what may have been written. Locked clocks cannot be
// read back: they are written again, and called assumed. docs/control_crashes.md lists every write
// of every scenario, killed at every commit.
//
// Control knows no driver and no disk: it asks Commander and ControlStorage. A reset ends the
// driver-host first, because NVML cannot reset a GPU that is open.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/token_bucket.h"
#include "core/control/audit.h"
#include "core/control/change_executor.h"
#include "core/control/gpu_queue.h"
#include "core/control/operations.h"

namespace gpuyard::control {

struct Policy {
  bool enabled = false;
  bool restore_on_stop = false;  // false: settings stay in force while no daemon runs
  std::int64_t changes_a_minute = Shares().changes_a_minute;  // per user; not for administrators
};

class Control {
 public:
  // How long a caller waits for its answer. The change then goes on, and its operation tells how it
  // ends.
  static constexpr Duration kPatience = std::chrono::seconds(20);
  static constexpr Duration kFarewell = std::chrono::seconds(1);
  static constexpr Duration kLoadAgain = std::chrono::seconds(5);
  // How long requests right after the start wait for the kept state, and how many may wait.
  static constexpr Duration kLoadPatience = std::chrono::seconds(5);
  static constexpr std::size_t kMostEarly = 64;
  // Callers that share one answer. More than one server has connections, and each user has a share
  // of these.
  static constexpr std::size_t kMostLooks = 4 * (shares::kConnections + shares::kKeptPlaces);

  using Changes = ChangeCollector::Changes;
  using Heard = ChangeCollector::Heard;
  using Seen = std::function<void(const Result<SettingState>&)>;

  // The loop, the commander and the archive outlive it.
  Control(Loop&, Commander&, ControlStorage&, Policy, std::string boot_id, std::string epoch);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Reads the kept state. Until then no change is made, and requests wait.
  void start();
  // Accepts no more changes, finishes the waiting ones, restores what the policy says, and refuses
  // the rest. done() comes after kFarewell at the latest, never inside the call.
  void stop(std::function<void()> done);

  // Tells one change for each GPU, or one for each of its settings, in the order of the request.
  // Errors of the request as a whole: denied (control is off, or force without being an admin),
  // invalid, not_found, unavailable. Heard once, never inside the call.
  void ask(const Request&, const Heard&);
  // Does the same, but returns as soon as the changes are queued.
  Result<Changes> send(const Request&);

  // Tells what the driver says of a setting now. Changes nothing, and works while control is
  // switched off. Waits behind the commands of that GPU, for ever if the driver never answers.
  void look(const DeviceId&, SettingKind, Seen);

  // Audits actions other than changes of settings, and requests that were refused before they
  // reached control.
  void note_done(const Asker& asker, const Deed& deed) { trail_.note_done(asker, deed); }
  void note_done(const Asker& asker, const std::string& action) {
    trail_.note_done(asker, {.action = action});
  }
  void note_refusal(const Asker& asker, const std::string& action, const Error& why) {
    trail_.note_refusal(asker, action, why);
  }

  // Sets the one listener that is told of every operation that is over.
  void on_operation(std::function<void(const Operation&)> told) { told_ = std::move(told); }

  // Refuses the waiting changes whose right has ended.
  void drop_lapsed();

  void on_fleet(const Fleet&);
  void on_reply(const CommandReply&);
  void on_host_down();
  void on_setter_down();
  void on_setter_back();

  const Policy& policy() const { return policy_; }
  // False: the kept state is not read yet.
  bool loaded() const { return loaded_; }
  // True until the stored state has been read or a read has failed.
  bool reading() const { return !loaded_ && !unloaded_; }
  const Holding* holding(const DeviceId&, SettingKind) const;
  const Operations& operations() const { return operations_; }
  ControlStorage& archive() { return archive_; }
  // Describes present problems, for people.
  std::vector<std::string> notes() const;

 private:
  struct Looking {
    DeviceId gpu;
    SettingKind kind{};
    std::vector<Seen> seen;
  };
  using Prepared = std::vector<std::pair<GpuQueue*, QueuedChange>>;

  Result<Prepared> prepare(const Request&);
  Result<void> may_ask(const Request&);
  void load();
  void on_loaded(Result<std::vector<Holding>>);
  void answer_early();
  void adopt(Holding);
  bool begins(const QueuedChange&);
  void on_over(const DeviceInfo&, const QueuedChange&, const std::optional<Change>&,
               TimePoint began);
  void take_back(const Request&, const Change&, std::vector<Claim> before,
                 const std::function<void(const Change&)>& done);
  void expire_in_time();
  void expire();
  bool quiet_but_for(const DeviceId&) const;

  Loop& loop_;
  Commander& commander_;
  ControlStorage& archive_;
  const Policy policy_;
  QueueEnvironment environment_;
  AuditTrail trail_;
  KeyedRateLimiter<std::string> changes_of_;  // by person
  Operations operations_;
  std::function<void(const Operation&)> told_;
  Resetting resetting_;
  std::map<DeviceId, std::unique_ptr<GpuQueue>> queues_;
  std::map<DeviceId, std::vector<Holding>> homeless_;  // of absent GPUs
  std::map<std::uint64_t, Looking> looks_;
  std::set<DeviceId> settled_;  // GPUs that are open since the driver-host greeted
  bool loaded_ = false;
  std::optional<Error> unloaded_;
  std::vector<std::pair<Request, Heard>> early_;  // requests from before the state was loaded
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
