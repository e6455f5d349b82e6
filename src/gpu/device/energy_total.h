// The energy of a GPU since this daemon first read it. Only grows, also when the accounts of an
// earlier daemon are restored.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace gpuyard {

struct EnergyTotal {
  TimePoint taken;  // of the last reading
  std::int64_t energy_mj = 0;
  std::int64_t estimated_mj = 0;
  Duration unknown{};  // time whose energy is not, or not wholly, known

  friend bool operator==(const EnergyTotal&, const EnergyTotal&) = default;
};

}  // namespace gpuyard
