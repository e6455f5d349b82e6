#include "sim/setting.h"

namespace gpuyard::sim {
namespace {

// In the order of Setting.
constexpr std::array<std::string_view, 12> kSettingNames{"power_limit",
                                                         "gpu_locked_clocks",
                                                         "gpu_locked_clocks_reset",
                                                         "memory_locked_clocks",
                                                         "memory_locked_clocks_reset",
                                                         "persistence_mode",
                                                         "compute_mode",
                                                         "ecc_mode",
                                                         "clear_ecc_counters",
                                                         "reset",
                                                         "driver_unloaded",
                                                         "driver_loaded"};
static_assert(kSettingNames.size() == static_cast<std::size_t>(Setting::driver_loaded) + 1);

}  // namespace

std::string_view name_of(Setting setting) {
  const auto index = static_cast<std::size_t>(setting);
  return index < kSettingNames.size() ? kSettingNames[index] : "unknown";
}

std::size_t values_of(Setting setting) {
  switch (setting) {
    case Setting::gpu_locked_clocks:
    case Setting::memory_locked_clocks:
      return 2;
    case Setting::gpu_locked_clocks_reset:
    case Setting::memory_locked_clocks_reset:
    case Setting::reset:
    case Setting::driver_unloaded:
      return 0;
    default:
      return 1;
  }
}

}  // namespace gpuyard::sim
