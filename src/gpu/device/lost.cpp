#include "device/lost.h"

#include <algorithm>

namespace gpuyard {
namespace {

bool says_lost(const Missing* why) {
  return why != nullptr && why->reason == MissingReason::device_lost;
}

}  // namespace

// Other readings may be of before it was lost, as they are not all read at once.
std::optional<Missing> lost_because(const DeviceState& device) {
  if (device.condition != DeviceCondition::unavailable) return std::nullopt;
  const auto& fault = device.info.fault;
  if (fault) return says_lost(&*fault) ? fault : std::nullopt;
  const auto& readings = device.sample.readings();
  const auto told = std::ranges::find_if(
      readings, [](const Reading& reading) { return says_lost(reading.missing()); });
  return told == readings.end() ? std::nullopt : std::optional(*told->missing());
}

bool is_lost(const DeviceState& device) {
  return lost_because(device).has_value();
}

}  // namespace gpuyard
