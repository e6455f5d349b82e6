// Logs each (GPU, cause) of failed queries once and then counts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gpu/device/device.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::telemetry {

// Thread: io.
class QueryErrors {
 public:
  // Logs "Error querying GPU device 0: Unknown Error" the first time. A row that a GPU does not
  // support, or has no value for yet, is no error.
  void record(const DeviceInfo&, const Sample&);
  void record(const DeviceInfo&, const Missing&);

  // Returns the count of all causes together.
  std::uint64_t count(const DeviceId&) const;

  // The most different causes that are counted. Texts come from a driver; beyond this number they
  // count as "another cause".
  static constexpr std::size_t kMaxCauses = 1024;

 private:
  std::map<std::pair<DeviceId, std::string>, std::uint64_t> counts_;
};

}  // namespace gpuyard::telemetry
