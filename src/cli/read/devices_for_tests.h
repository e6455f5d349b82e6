// Devices as a daemon or the local driver reports them, for tests of the output.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "faces/protocol/resources.h"

namespace gpuyard::cli {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30U;

using Numbers = std::map<Metric, std::int64_t>;

// Fills every row of a device: the given numbers, all others not supported.
inline protocol::Device device(std::uint32_t index, const Numbers& numbers) {
  DeviceState state;
  state.info = {"GPU-" + std::to_string(index), index,
                "GPU-" + std::to_string(index), "0000:1a:00.0",
                "NVIDIA H100 80GB HBM3",        {}};
  const Missing unsupported{MissingReason::not_supported, "Not Supported"};
  state.sample = missing_sample(ProbeSet::all(), unsupported, {});
  for (const auto& [metric, number] : numbers) state.sample.set({metric, 0, {}, number});
  return protocol::device_of(state, {});
}

inline protocol::Device busy(std::uint32_t index = 0) {
  auto made = device(index, {{Metric::utilization_gpu, 97},
                             {Metric::memory_used, 12 * kGiB + kGiB / 2},
                             {Metric::memory_reserved, kGiB / 2},
                             {Metric::memory_total, 80 * kGiB},
                             {Metric::temperature_core, 71},
                             {Metric::power_draw, 612'700},
                             {Metric::power_limit, 700'000},
                             {Metric::throttle_reasons, 0x4},
                             {Metric::clock_sm, 1980}});
  made.processes.emplace();
  return made;
}

inline protocol::Snapshot snapshot_with(std::vector<protocol::Device> devices) {
  protocol::Snapshot snapshot;
  snapshot.driver_initialised = true;
  snapshot.taken_at = "2026-01-31T12:00:00.250Z";
  snapshot.driver.driver_version = "535.104.05";
  snapshot.devices = std::move(devices);
  return snapshot;
}

}  // namespace gpuyard::cli
