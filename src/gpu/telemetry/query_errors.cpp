#include "gpu/telemetry/query_errors.h"

#include "base/log.h"
#include "gpu/device/fitness.h"

namespace gpuyard::telemetry {

void QueryErrors::record(const DeviceInfo& info, const Sample& sample) {
  for (const Missing& why : failures(sample)) record(info, why);
}

void QueryErrors::record(const DeviceInfo& info, const Missing& missing) {
  if (!is_failure(missing.reason)) return;
  std::string cause = describe(missing);
  if (counts_.size() >= kMaxCauses && !counts_.contains({info.id, cause})) cause = "another cause";
  if (++counts_[{info.id, cause}] == 1) {
    log::error("Error querying GPU device {}: {}", info.index, cause);
  }
}

std::uint64_t QueryErrors::count(const DeviceId& id) const {
  std::uint64_t total = 0;
  for (const auto& [key, count] : counts_) {
    if (key.first == id) total += count;
  }
  return total;
}

}  // namespace gpuyard::telemetry
