#include "daemon/driver_renewal.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::daemon {
namespace {

// A GPU that is lost, or that the driver did not open, is known to be out of order; a call that
// does not return is the driver-host's own matter.
bool is_unreadable(const DeviceState& device) {
  return device.condition == DeviceCondition::unavailable && !device.info.fault && !is_lost(device);
}

}  // namespace

std::optional<std::string> DriverRenewal::evaluate(const Snapshot& snapshot) {
  if (!snapshot.driver.initialised || snapshot.devices.empty()) return std::nullopt;
  // A board that is missing from the machine is no reason to keep a driver that reads nothing.
  const auto keeps_it = [](const DeviceState& device) {
    return !is_missing(device.info) && !is_unreadable(device);
  };
  const auto sick = std::ranges::find_if(snapshot.devices, is_unreadable);
  if (sick == snapshot.devices.end() || std::ranges::any_of(snapshot.devices, keeps_it)) {
    *this = {};
    return std::nullopt;
  }
  if (not_before_ && snapshot.taken < *not_before_) return std::nullopt;
  not_before_ = snapshot.taken + delay_;
  delay_ = std::min(delay_ * 2, kMaxDelay);
  return fmt::format("no GPU can be read ({})", sick->why);
}

}  // namespace gpuyard::daemon
