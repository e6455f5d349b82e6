// One change of one GPU that waits to be carried out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/requester.h"
#include "base/result.h"
#include "core/control/managed_setting.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

// The user or the lease that makes a request. A new claim replaces the earlier one of its owner.
struct ChangeRequester {
  std::string owner;   // "uid 1000", "zeus:1000", "lease:ID"
  bool admin = false;  // may say `force`
  std::string request_id = {};
  TimePoint received{};
  // For a request under a lease: the requesting user and the lease's user, "uid 0" and "uid 1002".
  std::string principal = {};
  std::string lease_holder = {};
  // The quota owner of the requesting user, where several users share one quota.
  std::string quota_owner = {};
  bool over_tcp = false;        // the user's identity is not proven
  std::string credential = {};  // "token k3m5q7ab", if one was shown
  bool member = false;          // has control rights, but is not an administrator
  bool internal = false;        // requested by gpuyard itself: for a rule or an expiry

  // Returns the name for the audit: "uid 0 under lease ID of uid 1002".
  std::string name() const;
  // Returns the name under which the user's requests are counted.
  const std::string& quota_group() const {
    return !quota_owner.empty() ? quota_owner : !principal.empty() ? principal : owner;
  }
  Requester queue_requester() const { return {quota_group(), admin || internal}; }
};

// Returns an error if the requester may no longer change that GPU. Empty: the right does not end.
using AuthorizationCheck = std::function<Result<void>(const DeviceId&)>;

struct SetValue {
  Setting setting;
  std::optional<Duration> duration = {};  // empty: until its owner restores it
};

// Drops the requester's claim: the claims of others come in force, or the baseline.
struct Restore {
  std::optional<SettingKind> kind = {};  // empty: every kind
};

// Resets the GPU, which no process may be using. All GPUs are away while it lasts.
struct Reset {};

using ChangeAction = std::variant<SetValue, Restore, ClearEcc, Reset>;

struct ChangeRequest {
  ChangeRequester requester;
  std::vector<DeviceId> gpus;  // each once
  ChangeAction action;
  bool force = false;      // also against other owners; needs an admin
  bool atomic = false;     // changes all of the GPUs, or none
  bool dry_run = false;    // only says what would happen
  bool exclusive = false;  // not beside other owners, even where a setting can be shared
  // Checked again right before the driver is called, because the change may have waited.
  AuthorizationCheck authorization_check = {};
};

enum class ChangeOutcome : std::uint8_t {
  applied,         // and read back
  assumed,         // the driver took it; it cannot be read back
  pending_reboot,  // in force from the next reset or reboot on
  held,            // another owner's lower power limit stays in force, and this claim waits
  restored,        // to the claims of others, or to the baseline
  drifted,         // not restored, and left alone: another program has changed it meanwhile
  cleared,         // the counters are 0
  reset,           // the GPU was reset
  planned,         // a dry run: nothing was changed
  queued,          // not done yet: the caller did not wait
  rolled_back,     // it worked here, but not on another GPU
  failed,          // `error` says why
};
BOOST_DESCRIBE_ENUM(ChangeOutcome, applied, assumed, pending_reboot, held, restored, drifted,
                    cleared, reset, planned, queued, rolled_back, failed)

// The result of one change of one GPU.
struct ChangeResult {
  DeviceId gpu;
  std::optional<std::uint32_t> index = {};
  std::string operation_id = {};         // its id
  std::optional<SettingKind> kind = {};  // empty for clearing and resetting
  ChangeOutcome outcome = ChangeOutcome::failed;
  std::optional<Setting> before = {};
  std::optional<Setting> after = {};      // in force now; for a dry run, what would be
  std::optional<std::string> owner = {};  // of the claim in force
  std::optional<WallTime> until = {};     // when that claim expires
  std::optional<Error> error = {};
};

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

inline constexpr std::size_t kMaxGpus = 64;  // of one request
// The longest time after which a claim may expire.
inline constexpr Duration kMaxClaimDuration = std::chrono::hours(24 * 366);

// Returns Errc::invalid for a request that is wrong for any GPU. Pure.
Result<void> check_request(const ChangeRequest&);

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
