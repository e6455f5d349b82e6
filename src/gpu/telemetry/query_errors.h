// Which GPU fails in which way: each (GPU, cause) is logged once and then counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "device/device.h"

namespace gpuyard::telemetry {

class QueryErrors {
 public:
  // Logs "Error querying GPU device 0: Unknown Error" the first time. What a GPU does not support,
  // or has no value for yet, is no error.
  void note(const DeviceInfo&, const Sample&);
  void note(const DeviceInfo&, const Missing&);

  // Of all causes together.
  std::uint64_t count(const DeviceId&) const;

  // Texts come from a driver: beyond so many different ones they count as "another cause".
  static constexpr std::size_t kMaxCauses = 1024;

 private:
  std::map<std::pair<DeviceId, std::string>, std::uint64_t> counts_;
};

}  // namespace gpuyard::telemetry
