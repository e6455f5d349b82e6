#include "gpu/device/health_tracker.h"

#include <algorithm>
#include <optional>
#include <set>
#include <variant>

#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {
namespace {

using Value = std::variant<Missing, std::int64_t>;

// A value that the GPU cannot be asked for now is unknown, whatever it was last.
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

void HealthTracker::set_power_comparison(bool compare) {
  power_comparison_ = compare;
  if (!compare) power_.clear();
}

std::string HealthTracker::contradiction(const DeviceId& gpu) const {
  const auto compared = power_.find(gpu);
  return compared != power_.end() ? compared->second.contradiction() : "";
}

void HealthTracker::update(const DeviceId& gpu, const Sample& sample) {
  if (power_comparison_) power_[gpu].update(sample);
  const Reading errors = uncorrectable_errors(sample);
  const std::int64_t* const since_load = sample.number(Metric::ecc_uncorrected_volatile);
  if (const auto* total = errors.number()) {
    gpus_[gpu].update(errors.metric, *total,
                      since_load != nullptr ? std::optional(*since_load) : std::nullopt);
  }
  const auto& list = sample.processes();
  const auto watched = gpus_.find(gpu);
  if (!list || list->processes() == nullptr || watched == gpus_.end()) return;
  const auto waiting = watched->second.contained_pids();
  for (const std::uint32_t pid : waiting) {
    const bool runs = std::ranges::count(*list->processes(), pid, &GpuProcess::pid) > 0;
    if (!runs) watched->second.remove_process(pid);
  }
}

void HealthTracker::record_contained(const DeviceId& gpu, const Sample& latest) {
  constexpr std::uint32_t kOfNoList = 0;  // no process has this id, so no list has it
  const auto& list = latest.processes();
  std::set<std::uint32_t> pids;
  if (!list || list->processes() == nullptr) {
    pids.insert(kOfNoList);
  } else {
    for (const GpuProcess& process : *list->processes()) pids.insert(process.pid);
  }
  gpus_[gpu].add_contained_suspects(pids);
}

HealthReport HealthTracker::evaluate_health(const DeviceState& device) const {
  HealthFacts facts;
  facts.lost = loss_reason(device);
  if (device.condition == DeviceCondition::responsive) {
    facts.contradiction = contradiction(device.info.id);
  }
  facts.temperature = current(device, device.sample.find(Metric::temperature_core));
  const Reading errors = uncorrectable_errors(device.sample);
  facts.ecc_errors = current(device, &errors);
  if (const auto watched = gpus_.find(device.info.id); watched != gpus_.end()) {
    facts.new_ecc_errors = watched->second.new_errors();
    facts.contained = watched->second.contained_pids().size();
  }
  return gpuyard::evaluate_health(facts, policy_.thresholds_of(device.info));
}

EccState HealthTracker::errors_of(const DeviceId& gpu) const {
  const auto found = gpus_.find(gpu);
  return found != gpus_.end() ? found->second.state() : EccState{};
}

// If a sample came first, its counters are compared with the restored state.
void HealthTracker::restore(const DeviceId& gpu, const EccState& errors, bool rebooted) {
  const EccState seen = errors_of(gpu);
  EccBaseline& baseline = gpus_[gpu] = EccBaseline();
  baseline.restore(errors, rebooted);
  if (seen.source) baseline.update(*seen.source, seen.total, seen.since_load);
}

}  // namespace gpuyard
