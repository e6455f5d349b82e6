#include "device/health.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/record.h"
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

}  // namespace gpuyard
