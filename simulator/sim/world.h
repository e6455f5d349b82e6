// The simulated world in its server: a fleet of GPUs with their physical state. Knows no file, no
// socket and no real clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/model.h"
#include "sim/workload.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

// The settings that clients change, in NVML's units. A locked clock of 0 is not locked.
struct Settings {
  std::uint32_t power_limit_mw = 0;
  std::uint32_t locked_sm_min_mhz = 0;
  std::uint32_t locked_sm_max_mhz = 0;
  std::uint32_t locked_memory_min_mhz = 0;
  std::uint32_t locked_memory_max_mhz = 0;
  std::uint32_t persistence_mode = 0;
  std::uint32_t compute_mode = 0;
  std::uint32_t ecc_mode = 0;
  std::uint32_t ecc_mode_pending = 0;
};

// The errors and repairs of a GPU's memory.
struct MemoryHealth {
  EccCounts volatile_corrected{};
  EccCounts volatile_uncorrected{};
  EccCounts aggregate_corrected{};
  EccCounts aggregate_uncorrected{};
  RowRemapping rows;
  std::uint32_t retired_pages_single_bit = 0;
  std::uint32_t retired_pages_double_bit = 0;
  std::uint32_t retired_pages_pending = 0;
};

// Counters, which only grow.
struct Counters {
  std::uint64_t elapsed_us = 0;
  std::uint64_t energy_uj = 0;  // milliwatts x milliseconds, so that no rounding is ever lost
  std::array<std::uint64_t, kActivities> activity_us{};
  std::uint64_t encoder_us = 0;
  std::uint64_t decoder_us = 0;
  std::uint64_t pcie_tx_bytes = 0;
  std::uint64_t pcie_rx_bytes = 0;
  std::uint64_t nvlink_tx_bytes = 0;  // of each link
  std::uint64_t nvlink_rx_bytes = 0;
  std::uint64_t power_cap_ns = 0;
  std::uint64_t application_clocks_ns = 0;
  std::uint64_t software_thermal_ns = 0;
  std::uint64_t hardware_thermal_ns = 0;
};

// The processes on one GPU, with cached sums, as there may be thousands of them.
class ProcessSet {
 public:
  ProcessSet() = default;
  explicit ProcessSet(std::vector<ProcessRecord> list) : list_(std::move(list)) { update_sums(); }

  const std::vector<ProcessRecord>& list() const { return list_; }

  // The sums of their shares of the GPU.
  double load() const { return load_; }
  double encoder() const { return encoder_; }
  double decoder() const { return decoder_; }

  // The sum of their memory; empty if it overflows.
  std::optional<std::uint64_t> memory_bytes() const { return memory_bytes_; }
  std::uint32_t max_load_permille() const {
    return max_load_permille_;
  }  // permille: the highest single load

  template <class Which>
  void erase_if(Which&& which) {
    if (std::erase_if(list_, which) != 0) update_sums();
  }

 private:
  void update_sums();

  std::vector<ProcessRecord> list_;
  double load_ = 0;
  double encoder_ = 0;
  double decoder_ = 0;
  std::optional<std::uint64_t> memory_bytes_ = 0;
  std::uint32_t max_load_permille_ = 0;
};

struct Gpu {
  const Model* model = nullptr;
  Identity identity;
  bool plugged = true;
  std::uint32_t plug_count = 1;  // how often it was plugged in

  // Its work.
  Workload workload;
  ProcessSet processes;
  Settings settings;
  Fault fault;
  double extra_heat = 0;  // degrees C by which its surroundings are hotter than the world's
  double extra_memory_heat = 0;

  // Its physical state.
  Demand demand;             // of workload and processes together
  double process_share = 1;  // the share of their demand that processes get
  Activities activities;
  double power_mw = 0;
  double power_average_mw = 0;
  double temperature = 0;  // degrees C
  double memory_temperature = 0;
  double fan_percent = 0;
  std::uint32_t sm_clock_mhz = 0;
  std::uint32_t memory_clock_mhz = 0;
  std::uint64_t clock_reasons = 0;
  std::chrono::milliseconds idle_for{0};
  Counters counters;
  MemoryHealth memory;
};

inline constexpr double kAmbientCelsius = 30.0;

// The time without work after which a GPU lowers its memory clock, link speed and performance
// state.
inline constexpr std::chrono::milliseconds kIdleDelay{2'000};

// The driver of all GPUs.
struct Driver {
  std::uint64_t session = 1;
  bool loaded = true;
  std::string version{kDefaultDriver};
  // World::elapsed at which it is loaded again.
  std::optional<std::chrono::milliseconds> load_due_at;
  std::string next_version;  // its version from then on
};

// The flow of the world's time, as its readers see it.
struct TimeFlow {
  TimeMode mode = TimeMode::real;
  double speed = 1.0;
};

struct World {
  std::chrono::milliseconds elapsed{0};  // in simulated time
  std::chrono::milliseconds began{0};    // `elapsed` at the first publication
  double ambient = kAmbientCelsius;
  std::vector<Gpu> gpus;             // by place, plugged in or not
  std::vector<std::uint32_t> order;  // by index: the place of a GPU that is plugged in
  Driver driver;
  Fault fault;  // of calls, for every GPU; has no states
  std::uint64_t fault_count = 0;
  TimeFlow time;
  SetterAccess setters = SetterAccess::owner;
  std::uint32_t process_entry_bytes = 24;
  std::uint32_t timeline_entries = 0;
  std::uint32_t timeline_done = 0;
  std::uint32_t timeline_refused = 0;

  std::chrono::milliseconds age() const { return elapsed - began; }
};

using Fleet = std::vector<const Model*>;

// Makes a fleet at rest. The same models in the same places of the same machine always get the same
// UUIDs, serials and PCI addresses. At most kMaxGpus.
World make_world(const Fleet&, const Workload&, double ambient = kAmbientCelsius,
                 std::string_view machine = {});
World make_world(const Model&, std::uint32_t gpus, const Workload&);

// The readings of the GPU's sensors.
GpuRecord record_of(const Gpu&);

DriverRecord driver_record_of(const World&);

// The memory, in bytes, for workload and processes.
std::uint64_t usable_memory(const Model&);

// The number of GPUs of a single model without a count.
inline constexpr int kDefaultGpus = 8;

// Reads "h100" with the number in `gpus`, or "a100:2,h100:4,t4" in the order of their indices,
// where a model without a count is one GPU. For a list, `gpus`, if given, must be its sum.
// Errc::invalid says what is wrong: an unknown model, a count out of range, a model named twice,
// more GPUs than a world has.
Result<Fleet> parse_fleet(std::string_view models, std::optional<int> gpus);

}  // namespace gpuyard::sim
