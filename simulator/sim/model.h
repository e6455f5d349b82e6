// The features and physical behaviour of GPU models: one table row per model. Shared by the world
// server, which simulates the model, and the simulated NVML, which answers for it; knows neither.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace gpuyard::sim {

// How the driver repairs bad memory.
enum class MemoryRepair : std::uint32_t { none, retired_pages, remapped_rows };

// Frequencies in MHz. The graphics clock is the SM clock.
struct ClockTable {
  std::uint32_t idle_sm = 0;
  std::uint32_t min_sm = 0;
  std::uint32_t max_sm = 0;
  std::uint32_t sm_step = 15;
  std::uint32_t default_application_sm = 0;  // 0: the model has no application clocks
  std::uint32_t idle_memory = 0;
  // Supported memory clocks, highest first; 0 ends the list.
  std::array<std::uint32_t, 6> memory{};
  // At or below this memory clock the SM clock stays below `max_sm_at_low_memory`.
  std::uint32_t low_memory = 0;
  std::uint32_t max_sm_at_low_memory = 0;
  std::uint32_t max_video = 0;
};

// Degrees C; 0: the model does not report it.
struct TemperatureLimits {
  std::uint32_t shutdown = 0;
  std::uint32_t slowdown = 0;
  std::uint32_t gpu_max = 0;
  std::uint32_t memory_max = 0;
};

struct PcieLink {
  std::uint32_t max_generation = 0;
  std::uint32_t max_width = 0;
  std::uint32_t idle_generation = 0;  // data-centre parts on SXM boards do not slow down
};

struct NvLink {
  std::uint32_t links = 0;          // 0: the model has no NVLink
  std::uint32_t version = 0;        // nvmlNvlinkVersion_t
  std::uint32_t link_mb_per_s = 0;  // 10^6 bytes per second, per link and direction
};

// The inforom's versions; "" where the model has no such object.
struct Inforom {
  std::string_view image;
  std::string_view oem;
  std::string_view ecc;
  std::string_view power;
};

// nvmlBrandType_t
inline constexpr std::uint32_t kBrandGeForce = 5;
inline constexpr std::uint32_t kBrandNvidia = 14;

struct Model {
  std::string_view key;   // the users' name for it: "h100"
  std::string_view name;  // NVML's name for it
  std::uint32_t pci_device_id = 0;
  std::uint32_t pci_subsystem_id = 0;
  std::uint32_t brand = kBrandNvidia;
  std::uint32_t architecture = 0;  // nvmlDeviceArchitecture_t
  std::int32_t compute_major = 0;
  std::int32_t compute_minor = 0;
  std::uint32_t cores = 0;
  std::uint32_t memory_bus_bits = 0;
  std::string_view vbios_version;
  std::string_view board_part_number = {};  // "" where the board does not report it
  std::string_view gpu_part_number;
  Inforom inforom;

  // Features of the model; a call for a missing one answers "not supported".
  bool has_serial = true;
  bool has_ecc = true;
  bool has_memory_temperature = false;
  bool has_mig = false;
  bool has_gpm = false;
  bool has_gsp = true;  // firmware that runs the GPU, on by default
  bool is_display_mode_enabled =
      true;  // nvmlDeviceGetDisplayMode's answer; no model drives a display
  MemoryRepair memory_repair = MemoryRepair::none;
  std::uint32_t fans = 0;
  std::uint32_t encoders = 0;
  std::uint32_t decoders = 0;
  std::uint32_t idle_performance_state = 0;
  std::uint32_t busy_performance_state = 0;

  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_reserved_bytes = 0;  // reserved by the driver
  std::uint64_t bar1_bytes = 0;
  std::uint64_t memory_bytes_per_s = 0;  // peak bandwidth

  std::uint32_t idle_mw = 0;
  std::uint32_t peak_mw = 0;  // draw of full load at the highest clock without a cap
  std::uint32_t power_limit_min_mw = 0;
  std::uint32_t power_limit_max_mw = 0;
  std::uint32_t power_limit_default_mw = 0;

  ClockTable clocks;
  TemperatureLimits temperatures;
  PcieLink pcie;
  NvLink nvlink = {};

  double thermal_resistance = 0;       // degrees C per watt
  double thermal_time_constant_s = 0;  // seconds
  double power_time_constant_s = 0.4;  // seconds

  std::uint32_t max_memory_clock_mhz() const { return clocks.memory.front(); }
};

// Finds a model by key; nullptr if there is none. The row is never destroyed.
const Model* find_model(std::string_view key);

std::span<const Model> all_models();

// Highest first.
std::span<const std::uint32_t> supported_memory_clocks(const Model&);

// The SM clocks that a supported memory clock allows: from `lowest` in steps of clocks.sm_step to
// `highest`. {0, 0}: that memory clock is not supported.
struct SmClockRange {
  std::uint32_t lowest = 0;
  std::uint32_t highest = 0;
};
SmClockRange supported_sm_clocks(const Model&, std::uint32_t memory_mhz);

}  // namespace gpuyard::sim
