// What a GPU model can do and how it behaves physically: one table row per model. Shared by the
// keeper, which simulates it, and the simulated NVML, which answers for it; knows neither.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpuyard::sim {

struct Model {
  std::string_view key;   // how people name it: "h100"
  std::string_view name;  // how NVML names it
  std::uint32_t pci_device_id;
  std::uint32_t pci_subsystem_id;
  std::uint32_t brand;         // nvmlBrandType_t
  std::uint32_t architecture;  // nvmlDeviceArchitecture_t
  std::int32_t compute_major;
  std::int32_t compute_minor;

  std::uint64_t memory_total_bytes;
  std::uint64_t memory_reserved_bytes;  // what the driver keeps for itself

  std::uint32_t idle_mw;
  std::uint32_t peak_mw;  // what full load would draw at the highest clock if no cap held it
  std::uint32_t cap_min_mw;
  std::uint32_t cap_max_mw;
  std::uint32_t cap_default_mw;

  std::uint32_t idle_sm_clock_mhz;
  std::uint32_t max_sm_clock_mhz;
  std::uint32_t sm_clock_step_mhz;
  std::uint32_t memory_clock_mhz;
  std::uint32_t max_video_clock_mhz;

  double thermal_resistance;     // degrees C per watt
  double thermal_time_constant;  // seconds
  double power_time_constant;    // seconds
};

// By key; nullptr if there is none. The row lives for ever.
const Model* find_model(std::string_view key);

}  // namespace gpuyard::sim
