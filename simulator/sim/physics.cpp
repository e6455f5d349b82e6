#include "sim/physics.h"

#include <algorithm>
#include <cmath>

#include "sim/clock_governor.h"
#include "sim/pcie.h"

namespace gpuyard::sim {
namespace {

using std::chrono::milliseconds;

constexpr double kPowerAverageTime = 0.5;  // seconds; what the average sensor forgets with
constexpr double kMemoryTimeConstant = 15.0;
constexpr double kFanTimeConstant = 3.0;

// Memory is warmer than the GPU, and more so the more it is used.
constexpr double kMemoryAbove = 3.0;
constexpr double kMemoryAboveWhenBusy = 10.0;

// Fans stand still below the first temperature and give all they have at the second.
constexpr double kFansStart = 45.0;
constexpr double kFansFull = 85.0;
constexpr double kLeastFanPercent = 30.0;

// How far a first-order lag gets towards its target within dt: the implicit Euler step. Good to a
// percent for steps far below the time constant, stable for any, and much cheaper than exp().
double lag(milliseconds dt, double time_constant_s) {
  const double share = static_cast<double>(dt.count()) / 1000.0 / time_constant_s;
  return share / (1.0 + share);
}

void follow(double& value, double target, milliseconds dt, double time_constant_s) {
  value += (target - value) * lag(dt, time_constant_s);
}

// What the GPU's workload and its processes ask, cut to what there is. Processes keep their memory;
// the workload gets the rest.
void take_demand(Gpu& gpu, std::uint32_t index, milliseconds elapsed) {
  const std::uint64_t usable = usable_memory(*gpu.model);
  const Demand own = demand_at(gpu.workload, index, elapsed, usable);
  const Processes& processes = gpu.processes;
  const double total = own.load + processes.load();
  gpu.process_share = total > 1.0 ? 1.0 / total : 1.0;
  gpu.demand.load = std::min(1.0, total);
  gpu.demand.vram_bytes = std::min(usable, own.vram_bytes + processes.memory_bytes().value_or(0));

  gpu.activities = {};
  gpu.activities.add(activities_of(kind_on(gpu.workload, index)), own.load * gpu.process_share);
  gpu.activities.add(activities_of(WorkloadKind::steady), processes.load() * gpu.process_share);
  gpu.activities.encoder += processes.encoder() * gpu.process_share;
  gpu.activities.decoder += processes.decoder() * gpu.process_share;
  if (gpu.model->encoders == 0) gpu.activities.encoder = 0;
}

double fan_target(double temperature) {
  if (temperature < kFansStart) return 0.0;
  const double share = (temperature - kFansStart) / (kFansFull - kFansStart);
  return std::min(100.0, kLeastFanPercent + share * (100.0 - kLeastFanPercent));
}

// Fans that are stuck below what the temperature asks for leave the GPU so much hotter for each
// watt.
void move_fans(Gpu& gpu, milliseconds dt) {
  if (gpu.model->fans == 0) return;
  if (gpu.fault.fans_stuck != 0) {
    gpu.fan_percent = gpu.fault.fan_percent;
  } else {
    follow(gpu.fan_percent, fan_target(gpu.temperature), dt, kFanTimeConstant);
  }
}

double lacking_airflow(const Gpu& gpu) {
  if (gpu.fault.fans_stuck == 0) return 0.0;
  return std::max(0.0, fan_target(gpu.temperature) - gpu.fan_percent) / 100.0;
}

void move_power_and_heat(Gpu& gpu, double ambient, milliseconds dt) {
  const Model& model = *gpu.model;
  const double target_mw = gpu.demand.load > 0.0
                               ? power_at(model, gpu.demand.load, gpu.sm_clock_mhz)
                               : static_cast<double>(model.idle_mw);
  follow(gpu.power_mw, target_mw, dt, model.power_time_constant);
  follow(gpu.power_average_mw, gpu.power_mw, dt, kPowerAverageTime);
  const double resistance = model.thermal_resistance * (1.0 + lacking_airflow(gpu));
  const double settled = ambient + gpu.extra_heat + gpu.power_mw / 1000.0 * resistance;
  follow(gpu.temperature, settled, dt, model.thermal_time_constant);
  const double memory = gpu.temperature + gpu.extra_memory_heat + kMemoryAbove +
                        kMemoryAboveWhenBusy * gpu.activities.of(Activity::dram);
  follow(gpu.memory_temperature, memory, dt, kMemoryTimeConstant);
  move_fans(gpu, dt);
}

void count_traffic(Gpu& gpu, milliseconds dt) {
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

void count(Gpu& gpu, milliseconds dt) {
  Counters& counters = gpu.counters;
  const auto us = static_cast<std::uint64_t>(dt.count()) * 1000;
  const auto busy = [&](double share) {
    return static_cast<std::uint64_t>(std::lround(std::min(1.0, share) * static_cast<double>(us)));
  };
  counters.elapsed_us += us;
  // The energy of what the power sensor shows: mW x ms = uJ.
  counters.energy_uj += static_cast<std::uint64_t>(std::lround(gpu.power_mw)) *
                        static_cast<std::uint64_t>(dt.count());
  for (std::size_t i = 0; i < kActivities; ++i) {
    counters.activity_us[i] += busy(gpu.activities.parts[i]);
  }
  counters.encoder_us += busy(gpu.activities.encoder);
  counters.decoder_us += busy(gpu.activities.decoder);
  count_traffic(gpu, dt);

  const auto in_force = [&](std::uint64_t reason) {
    return (gpu.clock_reasons & reason) != 0 ? us * 1000 : 0;
  };
  counters.power_cap_ns += in_force(kReasonPowerCap);
  counters.application_clocks_ns += in_force(kReasonApplicationClocks);
  counters.software_thermal_ns += in_force(kReasonSoftwareThermal);
  counters.hardware_thermal_ns += in_force(kReasonHardwareThermal);
}

}  // namespace

void step(World& world, milliseconds dt) {
  world.elapsed += dt;
  for (std::uint32_t index = 0; index < world.gpus.size(); ++index) {
    Gpu& gpu = world.gpus[index];
    if (!gpu.plugged) continue;
    take_demand(gpu, index, world.elapsed);
    gpu.idle_for =
        gpu.demand.load > 0.0 ? milliseconds{0} : std::min(kRestsAfter, gpu.idle_for + dt);
    govern_clocks(gpu, dt);
    move_power_and_heat(gpu, world.ambient, dt);
    count(gpu, dt);
  }
}

}  // namespace gpuyard::sim
