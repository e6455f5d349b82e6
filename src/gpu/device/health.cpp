#include "gpu/device/health.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/record.h"
#include "gpu/device/gpu_snapshot.h"
#include "gpu/device/snapshot.h"

namespace gpuyard {
namespace {

class Findings {
 public:
  void add(Health health, std::string why) {
    report_.verdict = std::max(report_.verdict.value_or(health), health);
    report_.reasons.push_back(std::move(why));
  }
  void add_unknown(std::string_view what, const Missing& why) {
    unknown_.push_back(fmt::format("{} unknown: {}", what, describe(why)));
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

void check_temperature(const HealthFacts& facts, const HealthThresholds& limits, Findings& all) {
  const auto* celsius = std::get_if<std::int64_t>(&facts.temperature);
  if (celsius == nullptr)
    return all.add_unknown("temperature", std::get<Missing>(facts.temperature));
  const auto above = [&](std::int64_t limit) {
    return fmt::format("temperature {} C is above {} C", *celsius, limit);
  };
  if (*celsius > limits.temperature_unhealthy) {
    all.add(Health::unhealthy, above(limits.temperature_unhealthy));
  } else if (*celsius > limits.temperature_degraded) {
    all.add(Health::degraded, above(limits.temperature_degraded));
  }
}

void check_memory_errors(const HealthFacts& facts, Findings& all) {
  if (facts.new_ecc_errors > 0) {
    all.add(Health::unhealthy, fmt::format("{} new uncorrectable ECC {}", facts.new_ecc_errors,
                                           facts.new_ecc_errors == 1 ? "error" : "errors"));
  }
  if (facts.contained > 0) {
    all.add(Health::degraded, fmt::format("contained ECC error (Xid 94), until {} {}",
                                          facts.contained == 1 ? "its process" : "its processes",
                                          facts.contained == 1 ? "ends" : "end"));
  }
  const auto* missing = std::get_if<Missing>(&facts.ecc_errors);
  if (missing != nullptr && missing->reason != MissingReason::not_supported) {
    all.add_unknown("ECC errors", *missing);
  }
}

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

std::string_view v0::name_of(Health health) {
  return enum_name(health);
}

const HealthThresholds& HealthPolicy::thresholds_of(const DeviceInfo& info) const {
  const auto named = std::find_if(of_gpu.begin(), of_gpu.end(),
                                  [&](const auto& one) { return has_name(info, one.first); });
  return named != of_gpu.end() ? named->second : common;
}

HealthReport evaluate_health(const HealthFacts& facts, const HealthThresholds& limits) {
  Findings all;
  if (facts.lost) all.add(Health::unhealthy, describe(*facts.lost));
  check_temperature(facts, limits, all);
  check_memory_errors(facts, all);
  if (!facts.contradiction.empty()) all.add(Health::degraded, facts.contradiction);
  return std::move(all).report();
}

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

void EccBaseline::restore(const EccState& state, bool rebooted) {
  source_ = state.source;
  base_ = rebooted ? state.total : state.base;
  total_ = state.total;
  rebooted_ = rebooted;
  if (rebooted) return;
  since_load_ = state.since_load;
  contained_ = state.contained;
  contained_pids_ = {state.contained_pids.begin(), state.contained_pids.end()};
  suspects_ = {state.suspects.begin(), state.suspects.end()};
}

EccState EccBaseline::state() const {
  return {source_,
          base_,
          total_,
          since_load_,
          contained_,
          {contained_pids_.begin(), contained_pids_.end()},
          {suspects_.begin(), suspects_.end()}};
}

void EccBaseline::restart(std::int64_t base) {
  base_ = base;
  contained_ = 0;
}

// Errors from before the reset are known; those since then are in both counters.
void EccBaseline::on_reset(Metric source, std::int64_t since_load) {
  const std::int64_t before = source == Metric::ecc_uncorrected_volatile ? 0 : base_;
  restart(std::clamp(total_ - since_load, std::min(before, total_), total_));
}

void EccBaseline::update(Metric source, std::int64_t total,
                         std::optional<std::int64_t> since_load) {
  const bool first = !source_;
  const bool fell = source_ == source && total < total_;
  const bool was_reset = since_load && (rebooted_ || (since_load_ && *since_load < *since_load_));
  if (first) {
    restart(total);
  } else if (source != source_) {
    base_ = total - (total_ - base_);
  } else if (fell) {
    restart(0);  // the counter was cleared; its errors came after that
  }
  source_ = source;
  total_ = total;
  if (was_reset && !first) on_reset(source, *since_load);
  if (since_load) since_load_ = since_load;
  rebooted_ = rebooted_ && !since_load;
}

void EccBaseline::acknowledge() {
  restart(total_);
  contained_pids_.clear();
  suspects_.clear();
}

void EccBaseline::add_contained(std::uint32_t pid) {
  ++contained_;
  contained_pids_.insert(pid);
}

void EccBaseline::add_contained_suspects(const std::set<std::uint32_t>& pids) {
  ++contained_;
  suspects_.insert(pids.begin(), pids.end());
}

void EccBaseline::identify_contained(std::uint32_t pid) {
  suspects_.clear();
  contained_pids_.insert(pid);
}

void EccBaseline::remove_process(std::uint32_t pid) {
  contained_pids_.erase(pid);
  suspects_.erase(pid);
}

std::set<std::uint32_t> EccBaseline::contained_pids() const {
  std::set<std::uint32_t> all = contained_pids_;
  all.insert(suspects_.begin(), suspects_.end());
  return all;
}

std::int64_t EccBaseline::new_errors() const {
  return std::max(std::int64_t{0}, total_ - base_ - contained_);
}

}  // namespace gpuyard
