#include "device/lost.h"

#include <algorithm>

namespace gpuyard {
namespace {

bool says_lost(const Missing* why) {
  return why != nullptr && why->reason == MissingReason::device_lost;
}

}  // namespace

// Other readings may be of before it was lost, as they are not all read at once.
bool is_lost(const DeviceState& device) {
  if (device.condition != DeviceCondition::unavailable) return false;
  if (device.info.fault) return says_lost(&*device.info.fault);
  return std::ranges::any_of(device.sample.readings(),
                             [](const Reading& reading) { return says_lost(reading.missing()); });
}

}  // namespace gpuyard
