// The simulated world as its keeper holds it: a fleet of GPUs with their physical state. Knows no
// file, no socket and no real clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "sim/model.h"
#include "sim/workload.h"
#include "sim/world_record.h"

namespace gpuyard::sim {

struct Gpu {
  const Model* model = nullptr;
  Identity identity;

  // What is asked of it.
  Workload workload;
  std::uint32_t power_limit_mw = 0;
  Fault fault;

  // Its physical state.
  Demand demand;
  double power_mw = 0;
  double temperature = 0;  // degrees C
  std::uint32_t sm_clock_mhz = 0;
  std::uint64_t energy_uj = 0;  // milliwatts x milliseconds, so that no rounding is ever lost
  std::uint64_t clock_reasons = 0;
};

inline constexpr double kAmbientCelsius = 30.0;

struct World {
  std::chrono::milliseconds elapsed{0};  // since it began, in simulated time
  double ambient = kAmbientCelsius;
  std::vector<Gpu> gpus;
};

// A fleet at rest. The same model and count give the same UUIDs, serials and PCI addresses always.
World make_world(const Model&, std::uint32_t gpus, const Workload&);

// What the GPU's sensors show.
GpuRecord record_of(const Gpu&);

}  // namespace gpuyard::sim
