// What this GPU with this driver does not support. Asking again costs a driver call each time,
// under a lock that all clients share, so the answer is remembered and asked for again only now and
// then.
#pragma once

#include <map>

#include "base/clock.h"
#include "device/metric.h"

namespace gpuyard::nvml {

class SupportMemory {
 public:
  // A mode that is switched may bring a reading back.
  static constexpr Duration kRetryAfter = std::chrono::minutes(10);

  bool is_unsupported(Metric metric, TimePoint now) const {
    const auto known = retry_at_.find(metric);
    return known != retry_at_.end() && now < known->second;
  }
  void note_unsupported(Metric metric, TimePoint now) { retry_at_[metric] = now + kRetryAfter; }

 private:
  std::map<Metric, TimePoint> retry_at_;
};

}  // namespace gpuyard::nvml
