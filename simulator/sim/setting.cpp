#include "sim/setting.h"

namespace gpuyard::sim {
namespace {

// In the order of Setting.
constexpr std::array<std::string_view, 9> kNames{"power_limit",
                                                 "gpu_locked_clocks",
                                                 "gpu_locked_clocks_reset",
                                                 "memory_locked_clocks",
                                                 "memory_locked_clocks_reset",
                                                 "persistence_mode",
                                                 "compute_mode",
                                                 "ecc_mode",
                                                 "clear_ecc_counters"};
static_assert(kNames.size() == static_cast<std::size_t>(Setting::clear_ecc_counters) + 1);

}  // namespace

std::string_view name_of(Setting setting) {
  const auto index = static_cast<std::size_t>(setting);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace gpuyard::sim
