// Which GPUs a world has, as people write it.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "sim/world.h"

namespace gpuyard::sim {

// What one model without a count gets when nobody says how many.
inline constexpr int kUsualGpus = 8;

// "h100" with a number of GPUs beside it, or "a100:2,h100:4,t4" in the order of their indices,
// where a model without a count is one GPU. `gpus`, where given, must be the sum of a list.
// Errc::invalid says what is wrong: an unknown model, a count out of range, a model named twice,
// more GPUs than a world has.
Result<Fleet> parse_fleet(std::string_view models, std::optional<int> gpus);

}  // namespace gpuyard::sim
