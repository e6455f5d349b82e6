// One change of one GPU that waits to be carried out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/control/change_request.h"
#include "core/control/change_result.h"
#include "core/control/managed_setting.h"
#include "gpu/device/command.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

// Tasks that control gives itself.
struct Expire {  // ends the claims that have expired
  SettingKind kind{};
};
struct ReconcileSetting {  // checks what has become of the setting: reconcile()
  SettingKind kind{};
};
struct Suspend {  // restores the baseline, and keeps the claims for the next start
  SettingKind kind{};
};
// Rolls back the requester's change, because it failed on another GPU. Claims that were changed
// since stay.
struct RollBackChange {
  SettingKind kind{};
  std::vector<SettingClaim> previous_claims;  // the earlier claims of all owners
  std::optional<SettingValue> new_value;      // the requester's claim since the change; empty: none
  bool forced = false;                        // the change took away the claims of others
};

using ChangeTask = std::variant<SetValue, Restore, ClearEcc, Reset, Expire, ReconcileSetting,
                                Suspend, RollBackChange>;

// Returns the task's setting; empty for ClearEcc, Reset, and Restore of every kind.
std::optional<SettingKind> kind_of(const ChangeTask&);
// "set power_limit to 300 W"
std::string text_of(const ChangeTask&);

struct QueuedChange {
  ChangeRequester requester;
  ChangeTask task;
  bool force = false;
  bool dry_run = false;
  bool exclusive = false;
  AuthorizationCheck authorization_check = {};
  std::string operation_id = {};
  // Called once, with the claims before the change; may be empty.
  std::function<void(const ChangeResult&, std::vector<SettingClaim> claims_before)> on_done = {};
};

// The owner of the tasks that control gives itself.
inline constexpr const char* kDaemonOwner = "gpuyard";

// Returns the task that carries out the action on one GPU.
ChangeTask task_of(const ChangeAction&);

// Returns the changes that a request makes to one GPU: one, or to restore everything one for each
// setting that the requester has a claim on. `managed_settings` are the GPU's. Pure.
std::vector<QueuedChange> expand(const ChangeRequest&,
                                 const std::map<SettingKind, ManagedSetting>& managed_settings);

// One moment on both clocks.
struct Moment {
  TimePoint now;
  WallTime wall;
};

// Changes the claims of `managed` as the change says. Errors: conflict, which names the conflicting
// owner and until when; not_found, the requester has no claim; busy, too many owners have one.
// Pure.
Result<void> change_claims(ManagedSetting& managed, const QueuedChange&, const DeviceInfo&, Moment);

}  // namespace gpuyard::control
