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

std::optional<std::int64_t> integer_reading(const DeviceState& device, Metric metric) {
  const std::int64_t* const value = device.sample.number(metric);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

// The utilisation, or the power where the board has no utilisation, from which on a GPU is busy.
// An idle GPU is at 0 % but for what monitors ask of it, and draws far less than half of its
// default limit, also at its highest clocks.
constexpr std::int64_t kBusyPercent = 10;
constexpr std::int64_t kBusyLimitDivisor = 2;

// Returns the newest reading of the GPU's activity. Returns nothing if a listed process accounts
// for it, or if no reading says how busy the GPU is.
std::optional<lease::Activity> activity_of(const DeviceState& device, TimePoint now) {
  const auto& list = device.sample.processes();
  const auto* const processes = list ? list->processes() : nullptr;
  if (device.condition != DeviceCondition::responsive) return std::nullopt;
  if (processes != nullptr && !processes->empty()) return std::nullopt;
  if (asleep_since(device)) return lease::Activity{now, false, "asleep"};
  if (const auto percent = integer_reading(device, Metric::utilization_gpu)) {
    return lease::Activity{device.sample.find(Metric::utilization_gpu)->taken,
                           *percent >= kBusyPercent, fmt::format("{} % utilisation", *percent)};
  }
  const auto power = integer_reading(device, Metric::power_draw);
  const auto limit = integer_reading(device, Metric::power_limit_default);
  if (!power || !limit || *limit <= 0) return std::nullopt;
  return lease::Activity{device.sample.find(Metric::power_draw)->taken,
                         *power >= *limit / kBusyLimitDivisor, fmt::format("{} W", *power / 1000)};
}

bool is_unsupported(const DeviceState& device, Metric metric) {
  const Reading* const reading = device.sample.find(metric);
  const Missing* const missing = reading != nullptr ? reading->missing() : nullptr;
  return missing != nullptr && missing->reason == MissingReason::not_supported;
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
  gpu.is_split = integer_reading(device, Metric::mig_mode).value_or(0) != 0;
  gpu.reports_memory =
      !is_unsupported(device, Metric::memory_total) && !is_unsupported(device, Metric::memory_free);
  const auto& list = device.sample.processes();
  const auto* const no_list = list ? std::get_if<Missing>(&list->value) : nullptr;
  gpu.lists_processes = no_list == nullptr || no_list->reason != MissingReason::not_supported;
  gpu.activity = activity_of(device, now);
  gpu.total_bytes = integer_reading(device, Metric::memory_total);
  gpu.free_bytes = integer_reading(device, Metric::memory_free);
  gpu.graphics_bytes = drawing_bytes(device);
  gpu.temperature_c = integer_reading(device, Metric::temperature_core);
  const auto node = integer_reading(device, Metric::numa_node);
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
  const auto& list = device.sample.processes();
  const auto* processes = list ? list->processes() : nullptr;
  std::int64_t bytes = 0;
  if (processes == nullptr) return bytes;
  for (const GpuProcess& process : *processes) {
    if (process.kind == ProcessKind::graphics) bytes += process.memory_bytes.value_or(0);
  }
  const auto total = integer_reading(device, Metric::memory_total);
  return std::min(bytes, total.value_or(0) / lease::GpuPool::kIdleMemoryDivisor);
}

}  // namespace gpuyard::daemon
