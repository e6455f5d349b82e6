#include "sim/physics.h"

#include <algorithm>
#include <cmath>

#include "sim/pcie_link.h"

namespace gpuyard::sim {
namespace {

using std::chrono::milliseconds;

constexpr double kPowerAverageTimeConstant = 0.5;  // seconds; time constant of the average sensor
constexpr double kMemoryTimeConstant = 15.0;
constexpr double kFanTimeConstant = 3.0;

// Degrees C by which memory is warmer than the GPU; it rises with the use of memory.
constexpr double kMemoryOffset = 3.0;
constexpr double kBusyMemoryOffset = 10.0;

// Fans stand still below the first temperature and run at full speed from the second.
constexpr double kFanStartCelsius = 45.0;
constexpr double kFanFullCelsius = 85.0;
constexpr double kMinFanPercent = 30.0;

// Returns how far a first-order lag moves towards its target within dt: the implicit Euler step.
// Good to a percent for steps far below the time constant, stable for any, and much cheaper than
// exp().
double lag(milliseconds dt, double time_constant_s) {
  const double share = static_cast<double>(dt.count()) / 1000.0 / time_constant_s;
  return share / (1.0 + share);
}

void approach(double& value, double target, milliseconds dt, double time_constant_s) {
  value += (target - value) * lag(dt, time_constant_s);
}

// Sets the GPU's demand: that of its workload and processes, cut to the GPU's capacity. Processes
// keep their memory; the workload gets the rest.
void update_demand(Gpu& gpu, std::uint32_t index, milliseconds elapsed) {
  const std::uint64_t usable = usable_memory(*gpu.model);
  const Demand own = demand_at(gpu.workload, index, elapsed, usable);
  const ProcessSet& processes = gpu.processes;
  const double total = own.load + processes.load();
  gpu.process_share = total > 1.0 ? 1.0 / total : 1.0;
  gpu.demand.load = std::min(1.0, total);
  gpu.demand.effort = std::min(1.0, own.effort + processes.load());
  gpu.demand.vram_bytes = std::min(usable, own.vram_bytes + processes.memory_bytes().value_or(0));

  gpu.activities = {};
  gpu.activities.add(activities_of(resolve_kind(gpu.workload, index)),
                     own.load * gpu.process_share);
  gpu.activities.add(activities_of(WorkloadKind::steady), processes.load() * gpu.process_share);
  gpu.activities.encoder += processes.encoder() * gpu.process_share;
  gpu.activities.decoder += processes.decoder() * gpu.process_share;
  if (gpu.model->encoders == 0) gpu.activities.encoder = 0;
}

double fan_target(double temperature) {
  if (temperature < kFanStartCelsius) return 0.0;
  const double share = (temperature - kFanStartCelsius) / (kFanFullCelsius - kFanStartCelsius);
  return std::min(100.0, kMinFanPercent + share * (100.0 - kMinFanPercent));
}

// Moves the fans. Fans that are stuck below the needed speed make the GPU hotter for each watt.
void update_fans(Gpu& gpu, milliseconds dt) {
  if (gpu.model->fans == 0) return;
  if (gpu.fault.fans_stuck != 0) {
    gpu.fan_percent = gpu.fault.fan_percent;
  } else {
    approach(gpu.fan_percent, fan_target(gpu.temperature), dt, kFanTimeConstant);
  }
}

double missing_airflow(const Gpu& gpu) {
  if (gpu.fault.fans_stuck == 0) return 0.0;
  return std::max(0.0, fan_target(gpu.temperature) - gpu.fan_percent) / 100.0;
}

void update_power_and_heat(Gpu& gpu, double ambient, milliseconds dt) {
  const Model& model = *gpu.model;
  const double target_mw = gpu.demand.load > 0.0
                               ? power_at(model, gpu.demand.effort, gpu.sm_clock_mhz)
                               : static_cast<double>(model.idle_mw);
  approach(gpu.power_mw, target_mw, dt, model.power_time_constant_s);
  approach(gpu.power_average_mw, gpu.power_mw, dt, kPowerAverageTimeConstant);
  const double resistance = model.thermal_resistance * (1.0 + missing_airflow(gpu));
  const double settled = ambient + gpu.extra_heat + gpu.power_mw / 1000.0 * resistance;
  approach(gpu.temperature, settled, dt, model.thermal_time_constant_s);
  const double memory = gpu.temperature + gpu.extra_memory_heat + kMemoryOffset +
                        kBusyMemoryOffset * gpu.activities.of(Activity::dram);
  approach(gpu.memory_temperature, memory, dt, kMemoryTimeConstant);
  update_fans(gpu, dt);
}

void update_traffic(Gpu& gpu, milliseconds dt) {
  const double seconds = static_cast<double>(dt.count()) / 1000.0;
  const auto share_of = [&](std::uint64_t per_s) {
    return static_cast<std::uint64_t>(static_cast<double>(per_s) * seconds);
  };
  Counters& counters = gpu.counters;
  counters.pcie_tx_bytes += share_of(bytes_per_s(gpu, gpu.activities.pcie_tx));
  counters.pcie_rx_bytes += share_of(bytes_per_s(gpu, gpu.activities.pcie_rx));
  const double link_per_s = gpu.model->nvlink.link_mb_per_s * 1e6 * gpu.activities.nvlink;
  counters.nvlink_tx_bytes += share_of(static_cast<std::uint64_t>(link_per_s));
  counters.nvlink_rx_bytes += share_of(static_cast<std::uint64_t>(link_per_s));
}

void update_counters(Gpu& gpu, milliseconds dt) {
  Counters& counters = gpu.counters;
  const auto us = static_cast<std::uint64_t>(dt.count()) * 1000;
  const auto busy = [&](double share) {
    return static_cast<std::uint64_t>(std::lround(std::min(1.0, share) * static_cast<double>(us)));
  };
  counters.elapsed_us += us;
  // Energy is the integral of the power sensor's reading: mW x ms = uJ.
  counters.energy_uj += static_cast<std::uint64_t>(std::lround(gpu.power_mw)) *
                        static_cast<std::uint64_t>(dt.count());
  for (std::size_t i = 0; i < kActivities; ++i) {
    counters.activity_us[i] += busy(gpu.activities.parts[i]);
  }
  counters.encoder_us += busy(gpu.activities.encoder);
  counters.decoder_us += busy(gpu.activities.decoder);
  update_traffic(gpu, dt);

  const auto in_force = [&](std::uint64_t reason) {
    return (gpu.clock_reasons & reason) != 0 ? us * 1000 : 0;
  };
  counters.power_cap_ns += in_force(kReasonPowerCap);
  counters.application_clocks_ns += in_force(kReasonApplicationClocks);
  counters.software_thermal_ns += in_force(kReasonSoftwareThermal);
  counters.hardware_thermal_ns += in_force(kReasonHardwareThermal);
}

// Dynamic power grows with frequency times voltage squared, and voltage with frequency: near the
// working point that is about the power 2.4.
constexpr double kPowerExponent = 2.4;

// The governor's rate of change of the clock: the whole range in 140 ms, half of it in well under
// 100 ms.
constexpr double kClockSlewMhzPerMs = 12.0;

// The share of the highest clock that each degree above the limit costs.
constexpr double kThermalSharePerDegree = 0.08;

double dynamic_mw(const Model& model, double load) {
  return load * static_cast<double>(model.peak_mw - model.idle_mw);
}

std::uint32_t align_to_step(const Model& model, double clock_mhz) {
  const auto steps = static_cast<std::uint32_t>(clock_mhz / model.clocks.sm_step);
  return std::max(steps * model.clocks.sm_step, model.clocks.min_sm);
}

// The highest clock step at which the load stays under the cap.
std::uint32_t power_limited_clock(const Model& model, double load, std::uint32_t cap_mw) {
  const double headroom = std::max(0.0, static_cast<double>(cap_mw) - model.idle_mw);
  const double share = std::pow(headroom / dynamic_mw(model, load), 1 / kPowerExponent);
  return align_to_step(model, std::min(1.0, share) * model.clocks.max_sm);
}

std::uint32_t thermal_clock(const Model& model, double degrees_above) {
  const double share = std::max(0.0, 1.0 - degrees_above * kThermalSharePerDegree);
  return align_to_step(model, share * model.clocks.max_sm);
}

std::uint32_t moved_towards(std::uint32_t now, std::uint32_t target, std::uint32_t max_change) {
  return now < target ? std::min(target, now + max_change)
                      : std::max(target, now - std::min(now, max_change));
}

// A clock to aim at, lowered by one limit after the other.
struct TargetClock {
  std::uint32_t clock_mhz = 0;
  std::uint64_t reasons = 0;

  void lower_to(std::uint32_t limit_mhz, std::uint64_t reason) {
    if (limit_mhz >= clock_mhz) return;
    clock_mhz = limit_mhz;
    reasons |= reason;
  }
};

// Applies the board's power brake, which acts when the power supply is in trouble: halves the clock
// at once.
void apply_power_brake(const Gpu& gpu, TargetClock& aim) {
  if (gpu.fault.power_brake == 0) return;
  aim.lower_to(align_to_step(*gpu.model, gpu.model->clocks.max_sm / 2.0), 0);
  aim.reasons |= kReasonPowerBrake | kReasonHardwareSlowdown;
}

TargetClock idle_target(const Gpu& gpu) {
  const Settings& set = gpu.settings;
  std::uint32_t clock = std::max(gpu.model->clocks.idle_sm, set.locked_sm_min_mhz);
  if (set.locked_sm_max_mhz != 0) clock = std::min(clock, set.locked_sm_max_mhz);
  return {.clock_mhz = clock, .reasons = kReasonIdle};
}

TargetClock busy_target(const Gpu& gpu) {
  const Model& model = *gpu.model;
  TargetClock aim{.clock_mhz = model.clocks.max_sm};
  if (gpu.settings.locked_sm_max_mhz != 0) {
    aim.lower_to(gpu.settings.locked_sm_max_mhz, kReasonApplicationClocks);
  }
  if (gpu.memory_clock_mhz <= model.clocks.low_memory) {
    aim.lower_to(model.clocks.max_sm_at_low_memory, 0);
  }
  if (power_at(model, gpu.demand.effort, aim.clock_mhz) > gpu.settings.power_limit_mw) {
    aim.lower_to(power_limited_clock(model, gpu.demand.effort, gpu.settings.power_limit_mw),
                 kReasonPowerCap);
  }
  const double above = gpu.temperature - model.temperatures.gpu_max;
  if (above > 0) aim.lower_to(thermal_clock(model, above), kReasonSoftwareThermal);
  if (gpu.temperature >= model.temperatures.slowdown) {
    aim.lower_to(model.clocks.min_sm, 0);
    aim.reasons |= kReasonHardwareThermal | kReasonHardwareSlowdown;
  }
  return aim;
}

// The highest supported clock within the lock; for a resting GPU its idle clock, if the lock allows
// it.
std::uint32_t memory_clock(const Gpu& gpu) {
  const Settings& set = gpu.settings;
  const bool rests = gpu.idle_for >= kIdleDelay;
  const std::uint32_t wanted =
      rests ? gpu.model->clocks.idle_memory : gpu.model->max_memory_clock_mhz();
  if (set.locked_memory_max_mhz == 0) return wanted;
  if (wanted < set.locked_memory_min_mhz) return set.locked_memory_min_mhz;
  return std::min(wanted, set.locked_memory_max_mhz);
}

}  // namespace

void step(World& world, milliseconds dt) {
  world.elapsed += dt;
  for (std::uint32_t index = 0; index < world.gpus.size(); ++index) {
    Gpu& gpu = world.gpus[index];
    if (!gpu.plugged) continue;
    update_demand(gpu, index, world.elapsed);
    gpu.idle_for =
        gpu.demand.load > 0.0 ? milliseconds{0} : std::min(kIdleDelay, gpu.idle_for + dt);
    govern_clocks(gpu, dt);
    update_power_and_heat(gpu, world.ambient, dt);
    update_counters(gpu, dt);
  }
}

double power_at(const Model& model, double load, double sm_clock_mhz) {
  const double share = sm_clock_mhz / static_cast<double>(model.clocks.max_sm);
  return model.idle_mw + dynamic_mw(model, load) * std::pow(share, kPowerExponent);
}

void govern_clocks(Gpu& gpu, std::chrono::milliseconds dt) {
  const auto slew =
      static_cast<std::uint32_t>(kClockSlewMhzPerMs * static_cast<double>(dt.count()));
  gpu.memory_clock_mhz = memory_clock(gpu);
  TargetClock aim = gpu.demand.load > 0.0 ? busy_target(gpu) : idle_target(gpu);
  apply_power_brake(gpu, aim);
  gpu.sm_clock_mhz = moved_towards(gpu.sm_clock_mhz, aim.clock_mhz, slew);
  gpu.clock_reasons = aim.reasons;
}

}  // namespace gpuyard::sim
