#include "device/missing.h"

namespace gpuyard {

std::string v0::describe(const Missing& missing) {
  if (!missing.detail.empty()) return missing.detail;
  switch (missing.reason) {
    case MissingReason::not_supported:
      return "not supported by this GPU or driver";
    case MissingReason::no_permission:
      return "no permission";
    case MissingReason::device_lost:
      return "the GPU is lost";
    case MissingReason::driver_gone:
      return "the driver was unloaded or replaced";
    case MissingReason::timed_out:
      return "the driver did not answer in time";
    case MissingReason::not_ready:
      return "not read yet";
    case MissingReason::failed:
      break;
  }
  return "the driver call failed";
}

}  // namespace gpuyard
