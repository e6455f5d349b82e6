// What a reading cannot exceed, or should not: another reading of the same GPU.
#pragma once

#include <optional>

#include "device/reading.h"

namespace gpuyard {

// In the row's own unit. Nothing: it has none, or that is not known now. Percentages end at 100.
std::optional<std::int64_t> upper_bound_of(Metric, const Sample&);

}  // namespace gpuyard
