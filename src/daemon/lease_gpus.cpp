#include "daemon/lease_gpus.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "device/lost.h"
#include "device/topology.h"

namespace gpuyard::daemon {
namespace {

struct Withholding {
  std::string word;
  std::string text;
};

std::optional<std::int64_t> number(const DeviceState& device, Metric metric) {
  const std::int64_t* const value = device.sample.number(metric);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

bool was_read(const DeviceState& device, Metric metric) {
  const Reading* const reading = device.sample.find(metric);
  if (reading == nullptr) return false;
  return reading->missing() == nullptr || reading->missing()->reason != MissingReason::not_ready;
}

// An unhealthy GPU is withheld whatever makes it so, its temperature too: that is what the word
// means. Who holds it keeps it; and it comes back with the verdict.
Withholding withholding_of(const DeviceState& device) {
  if (is_lost(device)) return {"lost", "lost: " + device.why};
  if (device.condition != DeviceCondition::responsive) {
    return {"unresponsive", "cannot be used now: " + device.why};
  }
  if (device.health.verdict == Health::unhealthy) {
    return {"unhealthy", fmt::format("unhealthy: {}", fmt::join(device.health.reasons, "; "))};
  }
  if (number(device, Metric::mig_mode).value_or(0) != 0) {
    return {"mig_enabled", "in MIG mode: it is split into instances, which are not leased"};
  }
  if (!was_read(device, Metric::mig_mode)) {
    return {"unresponsive", "not handed out before it is known whether it is in MIG mode"};
  }
  return {};
}

lease::PoolGpu pool_gpu(const DeviceState& device, std::optional<unsigned> clique) {
  lease::PoolGpu gpu;
  gpu.info = device.info;
  gpu.clique = clique;
  Withholding withholding = withholding_of(device);
  gpu.withheld = std::move(withholding.word);
  gpu.text = std::move(withholding.text);
  gpu.total_bytes = number(device, Metric::memory_total);
  gpu.free_bytes = number(device, Metric::memory_free);
  gpu.drawing_bytes = drawing_bytes(device);
  gpu.temperature_c = number(device, Metric::temperature_core);
  const auto node = number(device, Metric::numa_node);
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
    gpus.push_back(pool_gpu(snapshot.devices[i], cliques[i]));
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
  const auto total = number(device, Metric::memory_total);
  return std::min(bytes, total.value_or(0) / lease::GpuBook::kIdlePart);
}

}  // namespace gpuyard::daemon
