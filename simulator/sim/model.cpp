#include "sim/model.h"

#include <algorithm>

#include "sim/model_table.h"

namespace gpuyard::sim {

const Model* find_model(std::string_view key) {
  const auto found = std::ranges::find(kModels, key, &Model::key);
  return found == kModels.end() ? nullptr : &*found;
}

std::span<const Model> all_models() {
  return kModels;
}

std::span<const std::uint32_t> supported_memory_clocks(const Model& model) {
  const auto end = std::ranges::find(model.clocks.memory, 0U);
  return {model.clocks.memory.begin(), end};
}

SmClockRange supported_sm_clocks(const Model& model, std::uint32_t memory_mhz) {
  const auto supported = supported_memory_clocks(model);
  if (std::ranges::find(supported, memory_mhz) == supported.end()) return {};
  const bool low = memory_mhz <= model.clocks.low_memory;
  return {.lowest = model.clocks.min_sm,
          .highest = low ? model.clocks.max_sm_at_low_memory : model.clocks.max_sm};
}

}  // namespace gpuyard::sim
