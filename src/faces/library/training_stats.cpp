#include "faces/library/training_stats.h"

#include <algorithm>
#include <array>

namespace gpuyard::library {
namespace {

constexpr std::array kThrottleTimes = {Metric::throttle_time_sw_thermal,
                                       Metric::throttle_time_hw_thermal,
                                       Metric::throttle_time_power_brake};

}  // namespace

void TrainingStats::Growth::read(const Reading* reading) {
  const std::int64_t* counter = reading != nullptr ? reading->number() : nullptr;
  // A reading that comes late is less than the last, and would be taken for a reset.
  if (counter == nullptr || (last && reading->taken <= taken)) return;
  // A counter that fell was reset with its GPU: only its count since then is known.
  if (last) grown += *counter >= *last ? *counter - *last : *counter;
  last = *counter;
  taken = reading->taken;
  known = true;
}

void TrainingStats::Growth::reset() {
  grown = 0;
  known = false;
}

void TrainingStats::Gpu::add(const DeviceState& device) {
  const GpuMetrics now = metrics_of(device);
  seen = true;
  // An empty optional is less than any value.
  peak_memory = std::max(peak_memory, now.memory_used_bytes);
  highest_celsius = std::max(highest_celsius, now.temperature_celsius);
  if (now.utilization_percent) {
    utilization += *now.utilization_percent;
    ++utilizations;
  }
  for (std::size_t i = 0; i < kThrottleReasons; ++i) {
    throttled[i].read(device.sample.find(kThrottleTimes[i]));
  }
}

TrainingGpu TrainingStats::Gpu::report(std::uint32_t index) const {
  constexpr double kNanoseconds = 1e9;
  TrainingGpu out;
  out.index = index;
  out.peak_memory_bytes = peak_memory;
  out.highest_celsius = highest_celsius;
  for (const Growth& reason : throttled) {
    if (!reason.known) continue;
    const double seconds = static_cast<double>(reason.grown) / kNanoseconds;
    out.throttled_seconds = std::max(out.throttled_seconds.value_or(0), seconds);
  }
  if (utilizations > 0) {
    out.mean_utilization_percent = utilization / static_cast<double>(utilizations);
  }
  return out;
}

void TrainingStats::add(const Snapshot& snapshot) {
  ++samples_;
  for (const DeviceState& device : snapshot.devices) gpus_[device.info.index].add(device);
}

void TrainingStats::reset() {
  samples_ = 0;
  for (auto& [index, gpu] : gpus_) {
    Gpu fresh;
    fresh.throttled = gpu.throttled;
    for (Growth& reason : fresh.throttled) reason.reset();
    gpu = fresh;
  }
}

std::vector<TrainingGpu> TrainingStats::gpus() const {
  std::vector<TrainingGpu> all;
  for (const auto& [index, gpu] : gpus_) {
    if (gpu.seen) all.push_back(gpu.report(index));
  }
  return all;
}

}  // namespace gpuyard::library
