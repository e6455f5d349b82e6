#include "sim/clock_governor.h"

#include <algorithm>
#include <cmath>

namespace gpuyard::sim {
namespace {

// Dynamic power grows with frequency times voltage squared, and voltage with frequency: near the
// working point that is about the power 2.4.
constexpr double kPowerExponent = 2.4;

// How fast the governor moves the clock: the whole range in 140 ms, half of it in well under 100.
constexpr double kClockSlewMhzPerMs = 12.0;

// How much of the highest clock a degree above the limit costs.
constexpr double kThermalSharePerDegree = 0.08;

double dynamic_mw(const Model& model, double load) {
  return load * static_cast<double>(model.peak_mw - model.idle_mw);
}

std::uint32_t on_a_step(const Model& model, double clock_mhz) {
  const auto steps = static_cast<std::uint32_t>(clock_mhz / model.clocks.sm_step);
  return std::max(steps * model.clocks.sm_step, model.clocks.min_sm);
}

// The highest clock step at which the load stays under the cap.
std::uint32_t clock_under_cap(const Model& model, double load, std::uint32_t cap_mw) {
  const double room = std::max(0.0, static_cast<double>(cap_mw) - model.idle_mw);
  const double share = std::pow(room / dynamic_mw(model, load), 1 / kPowerExponent);
  return on_a_step(model, std::min(1.0, share) * model.clocks.max_sm);
}

std::uint32_t clock_under_heat(const Model& model, double degrees_above) {
  const double share = std::max(0.0, 1.0 - degrees_above * kThermalSharePerDegree);
  return on_a_step(model, share * model.clocks.max_sm);
}

std::uint32_t moved_towards(std::uint32_t now, std::uint32_t target, std::uint32_t most) {
  return now < target ? std::min(target, now + most) : std::max(target, now - std::min(now, most));
}

// A clock to aim at, lowered by one limit after the other.
struct Aim {
  std::uint32_t clock_mhz = 0;
  std::uint64_t reasons = 0;

  void lower_to(std::uint32_t limit_mhz, std::uint64_t reason) {
    if (limit_mhz >= clock_mhz) return;
    clock_mhz = limit_mhz;
    reasons |= reason;
  }
};

// The board's own brake, pulled when its supply is in trouble: half the clock, at once.
void brake(const Gpu& gpu, Aim& aim) {
  if (gpu.fault.power_brake == 0) return;
  aim.lower_to(on_a_step(*gpu.model, gpu.model->clocks.max_sm / 2.0), 0);
  aim.reasons |= kReasonPowerBrake | kReasonHardwareSlowdown;
}

Aim aim_at_rest(const Gpu& gpu) {
  const Settings& set = gpu.settings;
  std::uint32_t clock = std::max(gpu.model->clocks.idle_sm, set.locked_sm_min_mhz);
  if (set.locked_sm_max_mhz != 0) clock = std::min(clock, set.locked_sm_max_mhz);
  return {.clock_mhz = clock, .reasons = kReasonIdle};
}

Aim aim_at_work(const Gpu& gpu) {
  const Model& model = *gpu.model;
  Aim aim{.clock_mhz = model.clocks.max_sm};
  if (gpu.settings.locked_sm_max_mhz != 0) {
    aim.lower_to(gpu.settings.locked_sm_max_mhz, kReasonApplicationClocks);
  }
  if (gpu.memory_clock_mhz <= model.clocks.low_memory) {
    aim.lower_to(model.clocks.max_sm_at_low_memory, 0);
  }
  if (power_at(model, gpu.demand.load, aim.clock_mhz) > gpu.settings.power_limit_mw) {
    aim.lower_to(clock_under_cap(model, gpu.demand.load, gpu.settings.power_limit_mw),
                 kReasonPowerCap);
  }
  const double above = gpu.temperature - model.temperatures.gpu_max;
  if (above > 0) aim.lower_to(clock_under_heat(model, above), kReasonSoftwareThermal);
  if (gpu.temperature >= model.temperatures.slowdown) {
    aim.lower_to(model.clocks.min_sm, 0);
    aim.reasons |= kReasonHardwareThermal | kReasonHardwareSlowdown;
  }
  return aim;
}

// The highest supported clock within the locked ones; a resting GPU's own idle clock if it may.
std::uint32_t memory_clock(const Gpu& gpu) {
  const Settings& set = gpu.settings;
  const bool rests = gpu.idle_for >= kRestsAfter;
  const std::uint32_t wanted =
      rests ? gpu.model->clocks.idle_memory : gpu.model->max_memory_clock_mhz();
  if (set.locked_memory_max_mhz == 0) return wanted;
  if (wanted < set.locked_memory_min_mhz) return set.locked_memory_min_mhz;
  return std::min(wanted, set.locked_memory_max_mhz);
}

}  // namespace

double power_at(const Model& model, double load, double sm_clock_mhz) {
  const double share = sm_clock_mhz / static_cast<double>(model.clocks.max_sm);
  return model.idle_mw + dynamic_mw(model, load) * std::pow(share, kPowerExponent);
}

void govern_clocks(Gpu& gpu, std::chrono::milliseconds dt) {
  const auto slew =
      static_cast<std::uint32_t>(kClockSlewMhzPerMs * static_cast<double>(dt.count()));
  gpu.memory_clock_mhz = memory_clock(gpu);
  Aim aim = gpu.demand.load > 0.0 ? aim_at_work(gpu) : aim_at_rest(gpu);
  brake(gpu, aim);
  gpu.sm_clock_mhz = moved_towards(gpu.sm_clock_mhz, aim.clock_mhz, slew);
  gpu.clock_reasons = aim.reasons;
}

}  // namespace gpuyard::sim
