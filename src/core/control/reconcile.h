// Finds out what has become of a setting while nobody looked: after the daemon, the driver or the
// GPU was away. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "control/holding.h"

namespace gpuyard::control {

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
