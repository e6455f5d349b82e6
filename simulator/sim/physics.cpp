#include "sim/physics.h"

#include <algorithm>
#include <cmath>

namespace gpuyard::sim {
namespace {

// Dynamic power grows with frequency times voltage squared, and voltage with frequency: near the
// working point that is about the power 2.4.
constexpr double kPowerExponent = 2.4;

// How fast the governor moves the clock: the whole range in 140 ms, half of it in well under 100.
constexpr double kClockSlewMhzPerMs = 12.0;

// How far a first-order lag gets towards its target within dt.
double lag(std::chrono::milliseconds dt, double time_constant_s) {
  return 1.0 - std::exp(-static_cast<double>(dt.count()) / 1000.0 / time_constant_s);
}

double dynamic_mw(const Model& model, double load) {
  return load * static_cast<double>(model.peak_mw - model.idle_mw);
}

double power_at(const Model& model, double load, double clock_mhz) {
  const double share = clock_mhz / static_cast<double>(model.max_sm_clock_mhz);
  return model.idle_mw + dynamic_mw(model, load) * std::pow(share, kPowerExponent);
}

// The highest clock step at which the load stays under the cap.
std::uint32_t clock_under_cap(const Model& model, double load, std::uint32_t cap_mw) {
  const double room = static_cast<double>(cap_mw) - model.idle_mw;
  const double share = std::pow(std::max(0.0, room) / dynamic_mw(model, load), 1 / kPowerExponent);
  const double clock = std::min(1.0, share) * model.max_sm_clock_mhz;
  const auto steps = static_cast<std::uint32_t>(clock / model.sm_clock_step_mhz);
  return std::max(steps * model.sm_clock_step_mhz, model.idle_sm_clock_mhz);
}

std::uint32_t moved_towards(std::uint32_t now, std::uint32_t target, std::uint32_t most) {
  return now < target ? std::min(target, now + most) : std::max(target, now - std::min(now, most));
}

// Chooses the clock to aim at and says why it is not the highest.
std::uint32_t govern(Gpu& gpu) {
  const Model& model = *gpu.model;
  gpu.clock_reasons = 0;
  if (gpu.demand.load <= 0.0) {
    gpu.clock_reasons = kReasonIdle;
    return model.idle_sm_clock_mhz;
  }
  const bool capped = power_at(model, gpu.demand.load, model.max_sm_clock_mhz) > gpu.power_limit_mw;
  if (!capped) return model.max_sm_clock_mhz;
  gpu.clock_reasons = kReasonPowerCap;
  return clock_under_cap(model, gpu.demand.load, gpu.power_limit_mw);
}

void step(Gpu& gpu, double ambient, std::chrono::milliseconds dt) {
  const Model& model = *gpu.model;
  const auto slew =
      static_cast<std::uint32_t>(kClockSlewMhzPerMs * static_cast<double>(dt.count()));
  gpu.sm_clock_mhz = moved_towards(gpu.sm_clock_mhz, govern(gpu), slew);

  const double target_mw = gpu.demand.load > 0.0
                               ? power_at(model, gpu.demand.load, gpu.sm_clock_mhz)
                               : static_cast<double>(model.idle_mw);
  gpu.power_mw += (target_mw - gpu.power_mw) * lag(dt, model.power_time_constant);

  const double settled = ambient + gpu.power_mw / 1000.0 * model.thermal_resistance;
  gpu.temperature += (settled - gpu.temperature) * lag(dt, model.thermal_time_constant);

  // The energy of what the power sensor shows: mW x ms = uJ.
  gpu.energy_uj += static_cast<std::uint64_t>(std::lround(gpu.power_mw)) *
                   static_cast<std::uint64_t>(dt.count());
}

}  // namespace

void step(World& world, std::chrono::milliseconds dt) {
  world.elapsed += dt;
  for (std::uint32_t index = 0; index < world.gpus.size(); ++index) {
    Gpu& gpu = world.gpus[index];
    gpu.demand = demand_at(gpu.workload, index, world.elapsed,
                           gpu.model->memory_total_bytes - gpu.model->memory_reserved_bytes);
    step(gpu, world.ambient, dt);
  }
}

}  // namespace gpuyard::sim
