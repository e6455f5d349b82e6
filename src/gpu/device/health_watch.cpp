#include "device/health_watch.h"

#include <algorithm>
#include <set>

#include "device/gpu_snapshot.h"
#include "device/lost.h"

namespace gpuyard {
namespace {

using Value = std::variant<Missing, std::int64_t>;

// What the GPU cannot be asked for now is not known, whatever it said last.
Value current(const DeviceState& device, const Reading* reading) {
  if (device.info.fault) return *device.info.fault;
  if (device.condition == DeviceCondition::unresponsive) {
    return Missing{MissingReason::timed_out, device.why};
  }
  if (reading == nullptr) return Missing{};
  if (const auto* number = reading->number()) return *number;
  const Missing* missing = reading->missing();
  return missing != nullptr ? *missing : Missing{};
}

}  // namespace

void HealthWatch::note(const DeviceId& gpu, const Sample& sample) {
  const Reading errors = uncorrectable_errors(sample);
  if (const auto* total = errors.number()) gpus_[gpu].count(errors.metric, *total);
  const auto& list = sample.processes();
  const auto watched = gpus_.find(gpu);
  if (!list || list->processes() == nullptr || watched == gpus_.end()) return;
  const auto waiting = watched->second.waiting_for();
  for (const std::uint32_t pid : waiting) {
    const bool runs = std::ranges::count(*list->processes(), pid, &GpuProcess::pid) > 0;
    if (!runs) watched->second.process_gone(pid);
  }
}

void HealthWatch::note_contained(const DeviceId& gpu, const Sample& latest) {
  constexpr std::uint32_t kOfNoList = 0;  // no process has this id, so no list has it
  const auto& list = latest.processes();
  std::set<std::uint32_t> pids;
  if (!list || list->processes() == nullptr) {
    pids.insert(kOfNoList);
  } else {
    for (const GpuProcess& process : *list->processes()) pids.insert(process.pid);
  }
  gpus_[gpu].contained_in_one_of(pids);
}

HealthReport HealthWatch::judge(const DeviceState& device) const {
  HealthFacts facts;
  facts.lost = lost_because(device);
  facts.temperature = current(device, device.sample.find(Metric::temperature_core));
  const Reading errors = uncorrectable_errors(device.sample);
  facts.ecc_errors = current(device, &errors);
  if (const auto watched = gpus_.find(device.info.id); watched != gpus_.end()) {
    facts.new_ecc_errors = watched->second.fresh();
    facts.contained = watched->second.waiting_for().size();
  }
  return gpuyard::judge(facts, policy_.thresholds_of(device.info));
}

}  // namespace gpuyard
