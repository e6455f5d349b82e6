// Takes values that cannot be true out of a sample: they are missing, with kImplausible as reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "gpu/device/reading.h"

namespace gpuyard {

inline constexpr const char* kImplausible = "the driver's value is not plausible";

// Returns the reading, or the same one as missing if its number is outside the catalog's bounds.
Reading reject_implausible(Reading);

// Compares the readings of one GPU with the GPU's own limits. It keeps the limits, which are read
// less often than the values.
class PlausibilityFilter {
 public:
  // Removes each value far beyond the GPU's own limit. The catalog's bounds are checked where a
  // value is recorded.
  void apply(Sample&);

 private:
  std::array<std::optional<std::int64_t>, kMetricCount> limits_;
};

}  // namespace gpuyard
