#include "device/health.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/record.h"
#include "device/gpu_snapshot.h"
#include "device/snapshot.h"

namespace gpuyard {
namespace {

class Findings {
 public:
  void found(Health how_bad, std::string why) {
    report_.verdict = std::max(report_.verdict.value_or(how_bad), how_bad);
    report_.reasons.push_back(std::move(why));
  }
  void unknown(std::string_view what, const Missing& why) {
    unknown_.push_back(fmt::format("{} not known: {}", what, describe(why)));
  }

  HealthReport report() && {
    if (report_.verdict) return std::move(report_);
    if (!unknown_.empty()) return {std::nullopt, std::move(unknown_)};
    return {Health::healthy, {}};
  }

 private:
  HealthReport report_;
  std::vector<std::string> unknown_;
};

void look_at_temperature(const HealthFacts& facts, const HealthThresholds& limits, Findings& all) {
  const auto* celsius = std::get_if<std::int64_t>(&facts.temperature);
  if (celsius == nullptr) return all.unknown("temperature", std::get<Missing>(facts.temperature));
  const auto above = [&](std::int64_t limit) {
    return fmt::format("temperature {} C is above {} C", *celsius, limit);
  };
  if (*celsius > limits.temperature_unhealthy) {
    all.found(Health::unhealthy, above(limits.temperature_unhealthy));
  } else if (*celsius > limits.temperature_degraded) {
    all.found(Health::degraded, above(limits.temperature_degraded));
  }
}

void look_at_memory_errors(const HealthFacts& facts, Findings& all) {
  if (facts.new_ecc_errors > 0) {
    all.found(Health::unhealthy, fmt::format("{} new uncorrectable ECC {}", facts.new_ecc_errors,
                                             facts.new_ecc_errors == 1 ? "error" : "errors"));
  }
  if (facts.contained > 0) {
    all.found(Health::degraded, fmt::format("a contained ECC error (Xid 94) until {} {}",
                                            facts.contained == 1 ? "its process" : "its processes",
                                            facts.contained == 1 ? "ends" : "end"));
  }
  const auto* missing = std::get_if<Missing>(&facts.ecc_errors);
  if (missing != nullptr && missing->reason != MissingReason::not_supported) {
    all.unknown("ECC errors", *missing);
  }
}

}  // namespace

std::string_view v0::name_of(Health health) {
  return enum_name(health);
}

const HealthThresholds& HealthPolicy::thresholds_of(const DeviceInfo& info) const {
  const auto named = std::find_if(of_gpu.begin(), of_gpu.end(),
                                  [&](const auto& one) { return has_name(info, one.first); });
  return named != of_gpu.end() ? named->second : common;
}

HealthReport judge(const HealthFacts& facts, const HealthThresholds& limits) {
  Findings all;
  if (facts.lost) all.found(Health::unhealthy, describe(*facts.lost));
  look_at_temperature(facts, limits, all);
  look_at_memory_errors(facts, all);
  return std::move(all).report();
}

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

void EccBaseline::start_over(std::int64_t base) {
  base_ = base;
  contained_ = 0;
}

void EccBaseline::count(Metric source, std::int64_t total) {
  if (!counted_ || source != source_) {
    start_over(total);
  } else if (total < total_) {
    start_over(0);  // the counter was cleared; its errors came after that
  }
  counted_ = true;
  source_ = source;
  total_ = total;
}

void EccBaseline::acknowledge() {
  start_over(total_);
  waiting_.clear();
  suspects_.clear();
}

void EccBaseline::contained(std::uint32_t pid) {
  ++contained_;
  waiting_.insert(pid);
}

void EccBaseline::contained_in_one_of(const std::set<std::uint32_t>& pids) {
  ++contained_;
  suspects_.insert(pids.begin(), pids.end());
}

void EccBaseline::it_was(std::uint32_t pid) {
  suspects_.clear();
  waiting_.insert(pid);
}

void EccBaseline::process_gone(std::uint32_t pid) {
  waiting_.erase(pid);
  suspects_.erase(pid);
}

std::set<std::uint32_t> EccBaseline::waiting_for() const {
  std::set<std::uint32_t> all = waiting_;
  all.insert(suspects_.begin(), suspects_.end());
  return all;
}

std::int64_t EccBaseline::fresh() const {
  return std::max(std::int64_t{0}, total_ - base_ - contained_);
}

}  // namespace gpuyard
