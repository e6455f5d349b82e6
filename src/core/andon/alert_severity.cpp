#include "core/andon/alert_severity.h"

#include <algorithm>

namespace gpuyard::andon {

int thermal_severity(double celsius, double threshold) {
  constexpr int kBaseSeverity = 50;
  constexpr double kMaxExcess = 50;
  const double excess = celsius - threshold;
  if (!(excess > 0)) return kBaseSeverity;  // NaN too
  return kBaseSeverity + static_cast<int>(std::min(excess, kMaxExcess));
}

int memory_severity(double used_percent) {
  if (used_percent >= 99) return 100;
  return used_percent >= 95 ? 80 : 60;
}

int power_severity(double percent_of_limit) {
  return percent_of_limit >= 100 ? 70 : 50;
}

int idle_severity(double idle_secs, double timeout_secs) {
  if (idle_secs > 2 * timeout_secs) return 90;
  return idle_secs > 1.5 * timeout_secs ? 70 : 40;
}

AlertLevel level_of(int severity) {
  if (severity >= 80) return AlertLevel::critical;
  if (severity >= 60) return AlertLevel::error;
  return severity >= 40 ? AlertLevel::warning : AlertLevel::info;
}

}  // namespace gpuyard::andon
