// The daemon's half of control: checks every change of a GPU's settings, records it before it is
// made, makes the changes in order, and restores settings.
//
// Each GPU has a queue of changes, of which one is carried out at a time. A change alters the
// claims on a setting: which owner wants which value until when. The lowest claim on a power limit
// is in force; other settings have one owner. SettingController then brings the GPU to the claimed
// value, always in the same steps. It reads the present value, if it is not known. It records the
// new state where it survives the daemon, with the baseline and the value about to be written. The
// setter checks the range once more, writes the value and reads it back. SettingController records
// the result. A daemon that is killed at any point knows at its next start what may have been
// written. Locked clocks cannot be read back: they are written again, and called assumed.
// docs/control_crashes.md lists every write of every scenario, killed at every commit.
//
// SettingController knows no driver and no disk: it uses CommandPort and ControlStorage. A reset
// ends the driver-host first, because NVML cannot reset a GPU that is open.
//
// Thread: io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/keyed_rate_limiter.h"
#include "base/lifetime.h"
#include "base/limits.h"
#include "base/loop.h"
#include "core/control/audit.h"
#include "core/control/change_collector.h"
#include "core/control/change_request.h"
#include "core/control/change_result.h"
#include "core/control/command_port.h"
#include "core/control/gpu_queue.h"
#include "core/control/gpu_resetter.h"
#include "core/control/managed_setting.h"
#include "core/control/operations.h"
#include "core/control/queued_change.h"
#include "core/control/setting_reader.h"
#include "core/control/stored_settings.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

struct ControlPolicy {
  bool enabled = false;
  bool restore_on_stop = false;  // false: settings stay in force while no daemon runs
  std::int64_t changes_a_minute =
      UserQuotas().changes_a_minute;  // per user; not for administrators
};

class SettingController {
 public:
  // A caller waits this long for its result. The change then goes on, and its operation shows how
  // it ends.
  static constexpr Duration kRequestTimeout = std::chrono::seconds(20);
  static constexpr Duration kShutdownGrace = std::chrono::seconds(1);

  using Changes = ChangeCollector::Changes;
  using OnChanges = ChangeCollector::OnChanges;

  // The loop, the command port and the storage outlive the controller.
  SettingController(Loop&, CommandPort&, ControlStorage&, ControlPolicy, std::string boot_id,
                    std::string epoch);
  SettingController(const SettingController&) = delete;
  SettingController& operator=(const SettingController&) = delete;

  // Reads the stored state. Until then no change is made, and requests wait.
  void start();
  // Accepts no more changes, finishes the waiting ones, restores what the policy says, and refuses
  // the rest. `on_done` is called after kShutdownGrace at the latest, never inside the call.
  void stop(std::function<void()> on_done);

  // Reports one change for each GPU, or one for each of its settings, in the order of the request.
  // Errors of the request as a whole: denied (control is off, or force without being an admin),
  // invalid, not_found, unavailable. The callback runs once, never inside the call.
  void submit(const ChangeRequest&, const OnChanges&);
  // Does the same, but returns as soon as the changes are queued.
  Result<Changes> submit_async(const ChangeRequest&);

  // Reads a setting from the driver now. Changes nothing, and works while control is switched off.
  // Waits behind the commands of that GPU, without limit if the driver never answers.
  void read_setting(const DeviceId& gpu, SettingKind kind, OnSettingRead on_read) {
    reader_.read(gpu, kind, std::move(on_read));
  }

  // Audits actions other than changes of settings, and requests that were refused before they
  // reached control.
  void record_action(const ChangeRequester& requester, const AuditedAction& action) {
    trail_.record_action(requester, action);
  }
  void record_action(const ChangeRequester& requester, const std::string& action) {
    trail_.record_action(requester, {.action = action});
  }
  void record_refusal(const ChangeRequester& requester, const std::string& action,
                      const Error& why) {
    trail_.record_refusal(requester, action, why);
  }

  // Sets the one callback for every operation that has ended.
  void set_on_operation(std::function<void(const Operation&)> callback) {
    on_operation_ = std::move(callback);
  }

  // Refuses the waiting changes whose right has ended.
  void refuse_unauthorized();

  void on_inventory(const Inventory&);
  void on_reply(const CommandReply&);
  void on_host_down();
  void on_setter_down();
  void on_setter_back();

  const ControlPolicy& policy() const { return policy_; }
  // False: the stored state is not read yet.
  bool is_loaded() const { return stored_.is_loaded(); }
  // True until the stored state has been read or a read has failed.
  bool is_loading() const { return !stored_.is_loaded() && !stored_.error(); }
  const ManagedSetting* managed_setting(const DeviceId&, SettingKind) const;
  const OperationLog& operations() const { return operations_; }
  ControlStorage& storage() { return storage_; }
  // Describes present problems, for people.
  std::vector<std::string> notes() const;

 private:
  using PreparedChanges = std::vector<std::pair<GpuQueue*, QueuedChange>>;

  Result<PreparedChanges> prepare(const ChangeRequest&);
  Result<void> check_submission(const ChangeRequest&);
  void recover_setting(ManagedSetting);
  bool try_start(const QueuedChange&);
  void on_finished(const DeviceInfo&, const QueuedChange&, const std::optional<ChangeResult>&,
                   TimePoint started_at);
  void roll_back(const ChangeRequest&, const ChangeResult&, std::vector<SettingClaim> before,
                 const std::function<void(const ChangeResult&)>& on_done);
  void schedule_expiry();
  void expire_claims();
  bool others_idle(const DeviceId&) const;

  Loop& loop_;
  CommandPort& command_port_;
  ControlStorage& storage_;
  const ControlPolicy policy_;
  QueueEnvironment environment_;
  SettingReader reader_;
  StoredSettings stored_;
  AuditTrail trail_;
  KeyedRateLimiter<std::string> change_limiter_;  // by quota group
  OperationLog operations_;
  std::function<void(const Operation&)> on_operation_;
  GpuResetter resetter_;
  std::map<DeviceId, std::unique_ptr<GpuQueue>> queues_;
  std::map<DeviceId, std::vector<ManagedSetting>> absent_settings_;  // of absent GPUs
  std::set<DeviceId> open_gpus_;  // GPUs that are open since the driver-host sent Hello
  std::function<void()> on_stopped_;
  Subscription expiry_timer_;
  TimePoint earliest_expiry_at_{};
  Subscription shutdown_timer_;
  Lifetime lifetime_;
};

struct SettingReading {
  DeviceId gpu;
  SettingKind kind{};
  Result<SettingState> state = Error{Errc::timed_out, "the GPU did not respond in time"};
};

// Reads all settings of some GPUs from their drivers. Reports them by GPU and kind, in their order.
// A setting without a reply after `timeout` is Errc::timed_out. The callback runs once, never
// inside the call.
void read_settings(Loop&, SettingController&, const std::vector<DeviceId>&, Duration timeout,
                   std::function<void(const std::vector<SettingReading>&)> on_done);

}  // namespace gpuyard::control
