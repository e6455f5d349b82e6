// A request to change GPUs, and who makes it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/requester.h"
#include "base/result.h"
#include "gpu/device/command.h"
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

inline constexpr std::size_t kMaxGpus = 64;  // of one request
// The longest time after which a claim may expire.
inline constexpr Duration kMaxClaimDuration = std::chrono::hours(24 * 366);

// Returns Errc::invalid for a request that is wrong for any GPU. Pure.
Result<void> check_request(const ChangeRequest&);

}  // namespace gpuyard::control
