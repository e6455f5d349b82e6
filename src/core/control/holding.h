// What is wanted of one setting of one GPU, by whom, and what was there before. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/shares.h"
#include "device/device.h"
#include "device/setting.h"

namespace gpuyard::control {

// One owner has at most one claim on a setting.
struct Claim {
  std::string owner;  // "uid 1000"
  SettingValue wanted;
  WallTime since{};
  std::optional<TimePoint> until = {};  // then it ends by itself; empty: when its owner says so
  std::optional<WallTime> until_wall = {};

  friend bool operator==(const Claim&, const Claim&) = default;
};

enum class Standing : std::uint8_t {
  applied,
  assumed,         // written, but cannot be read back
  pending_reboot,  // written, in force from the next reset on
  drifted,         // somebody else has changed it since
  owed,            // still to be written, or to be looked at: the GPU or its driver was away
};
BOOST_DESCRIBE_ENUM(Standing, applied, assumed, pending_reboot, drifted, owed)

// There from the moment before the first write until the baseline is back. It is on the disk before
// the driver hears of what it says.
struct Holding {
  DeviceId gpu;
  SettingKind kind{};
  std::string boot_id = {};              // of the times and the values below
  std::optional<Setting> baseline = {};  // what was there; empty: not looked at in this boot
  std::optional<Setting> written = {};   // our last write, or the one under way
  // While it is not known whether `written` has arrived: what it replaces.
  std::optional<Setting> replaced = {};
  std::vector<Claim> claims = {};  // oldest first
  Standing standing = Standing::owed;

  friend bool operator==(const Holding&, const Holding&) = default;
};

// Power limits have several owners at a time, of whom the lowest is in force; others have one.
constexpr bool is_shared(SettingKind kind) {
  return kind == SettingKind::power_limit;
}

inline constexpr std::size_t kMostClaims = 64;

// What the claims make of it; empty without any.
std::optional<Setting> wanted(const Holding&);
// Whose claim that is: the oldest of those who want it so.
const Claim* claim_in_force(const Holding&);

const Claim* find_claim(const Holding&, std::string_view owner);
// In the place of the owner's earlier one, if there is one.
void place_claim(Holding&, Claim);
bool remove_claim(Holding&, std::string_view owner);
// Whether any was there whose time has passed.
bool remove_expired(Holding&, TimePoint now);
std::optional<TimePoint> next_expiry(const Holding&);

// What was written in an earlier boot is gone, and its clock with it: nothing of the values is true
// any more, and what is left of each claim's time is told by the wall clock.
void carry_into_boot(Holding&, const std::string& boot_id, TimePoint now, WallTime wall);

// Finds out what has become of a setting while nobody looked: after the daemon, the driver or the
// GPU was away. Pure.

enum class Finding : std::uint8_t {
  in_force,  // as it should be
  to_write,  // `target` has to be written
  drifted,   // somebody else has changed it: leave it alone
  nothing,   // there is nothing to put back, and nobody wants anything
};

struct Reconciled {
  Finding finding{};
  std::optional<Setting> target = {};  // of to_write and in_force
  // The driver has started anew since, so that this is what there was before our next write.
  std::optional<Setting> new_baseline = {};
};

// Whether it is a value that we wrote, or replaced.
bool is_ours(const Holding&, const SettingValue&);

// A value that is our last write, what that replaced, the baseline or the driver's own default is
// none that somebody else chose: writes get lost when a daemon is killed and when a driver is
// loaded anew. Any other is. What cannot be read back is written again.
Reconciled reconcile(const Holding&, const SettingState& seen);

}  // namespace gpuyard::control
