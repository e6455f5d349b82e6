#include "cpu/energy_counter.h"

#include <algorithm>
#include <utility>

namespace gpuyard::cpu {

std::int64_t EnergyCounter::count(std::int64_t raw, std::optional<std::int64_t> range) {
  const auto last = std::exchange(last_, raw);
  if (last && raw >= *last) {
    total_ += raw - *last;
  } else if (last && range && *last <= *range) {
    total_ += *range - *last + raw;
  } else {
    total_ = raw;
  }
  return total_ = std::min(total_, kMostMicrojoules);
}

}  // namespace gpuyard::cpu
