#include "sim/model.h"

#include <algorithm>
#include <array>

namespace gpuyard::sim {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1024} * 1024;

constexpr std::array kModels{
    Model{.key = "h100",
          .name = "NVIDIA H100 80GB HBM3",
          .pci_device_id = 0x233010DE,
          .pci_subsystem_id = 0x16C110DE,
          .brand = 14,        // NVIDIA
          .architecture = 9,  // Hopper
          .compute_major = 9,
          .compute_minor = 0,
          .memory_total_bytes = 81559 * kMiB,
          .memory_reserved_bytes = 600 * kMiB,
          .idle_mw = 70'000,
          .peak_mw = 720'000,
          .cap_min_mw = 200'000,
          .cap_max_mw = 700'000,
          .cap_default_mw = 700'000,
          .idle_sm_clock_mhz = 345,
          .max_sm_clock_mhz = 1980,
          .sm_clock_step_mhz = 15,
          .memory_clock_mhz = 2619,
          .max_video_clock_mhz = 1545,
          .thermal_resistance = 0.06,
          .thermal_time_constant = 12.0,
          .power_time_constant = 0.4},
};

}  // namespace

const Model* find_model(std::string_view key) {
  const auto found = std::ranges::find(kModels, key, &Model::key);
  return found == kModels.end() ? nullptr : &*found;
}

}  // namespace gpuyard::sim
