// A node of GPUs whose readings a test sets, as the snapshots that telemetry would publish.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/device/snapshot.h"

namespace gpuyard::energy {

inline constexpr WallTime kWall{std::chrono::milliseconds(1'700'000'000'000)};

struct TestGpu {
  std::string uuid;
  std::optional<std::int64_t> counter_mj;
  std::optional<std::int64_t> power_mw = 100'000;
  bool has_counter = true;
  bool answers = true;
};

inline Snapshot snapshot_of(const std::vector<TestGpu>& gpus, TimePoint now, WallTime wall) {
  Snapshot snapshot;
  snapshot.taken = now;
  snapshot.wall = wall;
  snapshot.driver = {true, "", {}};
  snapshot.driver.info.driver_version = "535";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const TestGpu& gpu = gpus[i];
    DeviceState device;
    device.info = {gpu.uuid, static_cast<std::uint32_t>(i), gpu.uuid, "", "Test GPU", {}};
    const Missing late{MissingReason::timed_out, ""};
    const Missing none{MissingReason::not_supported, ""};
    Reading counter{Metric::energy_total, 0, now, gpu.has_counter ? late : none};
    Reading power{Metric::power_draw, 0, now, late};
    if (gpu.answers && gpu.has_counter && gpu.counter_mj) counter.value = *gpu.counter_mj;
    if (gpu.answers && gpu.power_mw) power.value = *gpu.power_mw;
    device.sample.set(counter);
    device.sample.set(power);
    snapshot.devices.push_back(std::move(device));
  }
  return snapshot;
}

}  // namespace gpuyard::energy
