#include "daemon/pool_gpus.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "gpu/device/device.h"
#include "gpu/device/fitness.h"

namespace gpuyard::daemon {
namespace {

// The utilisation, or the power where the board has no utilisation, from which on a GPU is busy.
// An idle GPU is at 0 % but for what monitors ask of it, and draws far less than half of its
// default limit, also at its highest clocks.
constexpr std::int64_t kBusyPercent = 10;
constexpr std::int64_t kBusyLimitDivisor = 2;

// Returns the newest reading of the GPU's activity. Returns nothing if a listed process accounts
// for it, or if no reading says how busy the GPU is.
std::optional<lease::Activity> activity_of(const DeviceState& device, TimePoint now) {
  const auto* const processes = device.sample.listed_processes();
  if (device.condition != DeviceCondition::responsive) return std::nullopt;
  if (processes != nullptr && !processes->empty()) return std::nullopt;
  if (asleep_since(device)) return lease::Activity{now, false, "asleep"};
  if (const auto percent = device.sample.value(Metric::utilization_gpu)) {
    return lease::Activity{device.sample.find(Metric::utilization_gpu)->taken,
                           *percent >= kBusyPercent, fmt::format("{} % utilisation", *percent)};
  }
  const auto power = device.sample.value(Metric::power_draw);
  const auto limit = device.sample.value(Metric::power_limit_default);
  if (!power || !limit || *limit <= 0) return std::nullopt;
  return lease::Activity{device.sample.find(Metric::power_draw)->taken,
                         *power >= *limit / kBusyLimitDivisor, fmt::format("{} W", *power / 1000)};
}

lease::PoolGpu pool_gpu(const DeviceState& device, std::optional<unsigned> clique, TimePoint now) {
  lease::PoolGpu gpu;
  gpu.info = device.info;
  gpu.clique = clique;
  Fitness fitness = fitness_of(device);
  switch (fitness.verdict) {
    case Verdict::good:
      break;
    // Its holder keeps it, and it is granted again when the verdict changes.
    case Verdict::bad:
    case Verdict::unknown:
      gpu.withheld = std::move(fitness.word);
      gpu.text = std::move(fitness.why);
  }
  gpu.is_split = device.sample.value(Metric::mig_mode).value_or(0) != 0;
  gpu.reports_memory = !device.sample.is_unsupported(Metric::memory_total) &&
                       !device.sample.is_unsupported(Metric::memory_free);
  const auto& list = device.sample.processes();
  const auto* const no_list = list ? std::get_if<Missing>(&list->value) : nullptr;
  gpu.lists_processes = no_list == nullptr || no_list->reason != MissingReason::not_supported;
  gpu.activity = activity_of(device, now);
  gpu.total_bytes = device.sample.value(Metric::memory_total);
  gpu.free_bytes = device.sample.value(Metric::memory_free);
  gpu.graphics_bytes = drawing_bytes(device);
  gpu.temperature_c = device.sample.value(Metric::temperature_core);
  const auto node = device.sample.value(Metric::numa_node);
  if (node && *node >= 0) gpu.numa_node = static_cast<unsigned>(*node);
  return gpu;
}

}  // namespace

std::vector<lease::PoolGpu> pool_gpus(const Snapshot& snapshot) {
  std::vector<DeviceInfo> infos;
  for (const DeviceState& device : snapshot.devices) infos.push_back(device.info);
  const auto cliques = nvlink_cliques(infos);
  std::vector<lease::PoolGpu> gpus;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    gpus.push_back(pool_gpu(snapshot.devices[i], cliques[i], snapshot.taken));
  }
  return gpus;
}

std::int64_t drawing_bytes(const DeviceState& device) {
  const auto* const processes = device.sample.listed_processes();
  std::int64_t bytes = 0;
  if (processes == nullptr) return bytes;
  for (const GpuProcess& process : *processes) {
    if (process.kind == ProcessKind::graphics) bytes += process.memory_bytes.value_or(0);
  }
  const auto total = device.sample.value(Metric::memory_total);
  return std::min(bytes, total.value_or(0) / lease::GpuPool::kIdleMemoryDivisor);
}

}  // namespace gpuyard::daemon
