// What the driver failed to give, among the readings that are missing.
#pragma once

#include <vector>

#include "device/reading.h"

namespace gpuyard {

// What a GPU does not support, or has no value for yet, is no failure.
bool is_failure(MissingReason);

// Each cause once: one lost GPU fails every row for one cause.
std::vector<Missing> failures(const Sample&);

}  // namespace gpuyard
