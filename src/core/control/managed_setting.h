// The claims on one setting of one GPU, and its value before them. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/proc_stat.h"
#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

// One owner has at most one claim on a setting.
struct SettingClaim {
  std::string owner;  // "uid 1000"
  SettingValue value;
  WallTime since{};
  std::optional<TimePoint> until = {};  // ends by itself then; empty: when its owner ends it
  std::optional<WallTime> until_wall = {};

  friend bool operator==(const SettingClaim&, const SettingClaim&) = default;
};

enum class SettingStatus : std::uint8_t {
  applied,
  assumed,         // written, but cannot be read back
  pending_reboot,  // written, in force from the next reset on
  drifted,         // changed since, and not by gpuyard
  owed,            // still to be written or read: the GPU or its driver was away
};
BOOST_DESCRIBE_ENUM(SettingStatus, applied, assumed, pending_reboot, drifted, owed)

// The state of one setting that gpuyard has changed. Exists from just before the first write until
// the baseline is back. It is recorded before the driver writes: ControlStorage.
struct ManagedSetting {
  DeviceId gpu;
  SettingKind kind{};
  std::string boot_id = {};              // the boot of the times and values below
  std::optional<Setting> baseline = {};  // the value before; empty: not read in this boot
  std::optional<Setting> written = {};   // our last write, or the one in progress
  // The value that `written` replaces, while it is not known whether the write has arrived.
  std::optional<Setting> replaced = {};
  std::vector<SettingClaim> claims = {};  // oldest first
  SettingStatus status = SettingStatus::owed;

  friend bool operator==(const ManagedSetting&, const ManagedSetting&) = default;
};

// A power limit may have several claims, of which the lowest is in force. Other settings have one.
constexpr bool is_shared(SettingKind kind) {
  return kind == SettingKind::power_limit;
}

// The board keeps its ECC mode over a reboot, a reload of the driver and a power cut. The other
// settings end with the driver.
constexpr bool outlives_boot(SettingKind kind) {
  return kind == SettingKind::ecc;
}

inline constexpr std::size_t kMaxClaims = 64;

// Returns the setting that the claims request; empty without any.
std::optional<Setting> effective_setting(const ManagedSetting&);
// Returns the claim that is in force: the oldest of the lowest.
const SettingClaim* effective_claim(const ManagedSetting&);

const SettingClaim* find_claim(const ManagedSetting&, std::string_view owner);
// Replaces the owner's earlier claim, if there is one.
void set_claim(ManagedSetting&, SettingClaim);
bool remove_claim(ManagedSetting&, std::string_view owner);
// Returns whether any claim had expired.
bool remove_expired(ManagedSetting&, TimePoint now);
std::optional<TimePoint> next_expiry(const ManagedSetting&);

// Moves a managed setting of an earlier boot into this one. Its values were lost with that boot,
// unless outlives_boot(), and so was its clock: they are cleared, and the wall clock shows how much
// of each claim's time is left.
void rebase_to_boot(ManagedSetting&, const std::string& boot_id, TimePoint now, WallTime wall);

// The result of reading a setting again, after the daemon, the driver or the GPU was away.
enum class ReconcileResult : std::uint8_t {
  in_force,  // as it should be
  to_write,  // `target` has to be written
  drifted,   // not changed by gpuyard: leave it alone
  nothing,   // there is nothing to restore, and no claim
};

struct Reconciliation {
  ReconcileResult result{};
  std::optional<Setting> target = {};  // for to_write and in_force
  // The baseline for our next write, if the driver was reloaded since.
  std::optional<Setting> new_baseline = {};
};

// Returns whether we wrote or replaced this value.
bool is_own_value(const ManagedSetting&, const SettingValue&);

// Compares the value that was read with the claims. Our last write, the value it replaced, the
// baseline and the driver's default may be written over: writes get lost when a daemon is killed
// and when a driver is reloaded. Another program has chosen any other value, which has drifted. A
// setting that cannot be read back is written again.
Reconciliation reconcile(const ManagedSetting&, const SettingState& state);

}  // namespace gpuyard::control
