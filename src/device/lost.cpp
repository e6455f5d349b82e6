#include "device/lost.h"

namespace gpuyard {

bool is_lost(const DeviceState& device) {
  if (device.condition != DeviceCondition::unavailable) return false;
  const auto& fault = device.info.fault;
  return fault ? fault->reason == MissingReason::device_lost : lost(device.sample) != nullptr;
}

}  // namespace gpuyard
