#include "gpu/device/health.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/record.h"
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

}  // namespace gpuyard
