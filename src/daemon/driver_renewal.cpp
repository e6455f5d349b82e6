#include "daemon/driver_renewal.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::daemon {
namespace {

// A GPU that is lost, or that the driver did not open, is known to be out of order; a call that
// does not return is the driver-host's own matter.
bool reads_nothing(const DeviceState& device) {
  return device.condition == DeviceCondition::unavailable && !device.info.fault && !is_lost(device);
}

}  // namespace

std::optional<std::string> DriverRenewal::note(const Snapshot& snapshot) {
  if (!snapshot.driver.initialised || snapshot.devices.empty()) return std::nullopt;
  if (!std::ranges::all_of(snapshot.devices, reads_nothing)) {
    *this = {};
    return std::nullopt;
  }
  if (not_before_ && snapshot.taken < *not_before_) return std::nullopt;
  not_before_ = snapshot.taken + delay_;
  delay_ = std::min(delay_ * 2, kLongestDelay);
  return fmt::format("no GPU can be read ({})", snapshot.devices.front().why);
}

}  // namespace gpuyard::daemon
