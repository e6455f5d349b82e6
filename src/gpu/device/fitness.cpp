#include "gpu/device/fitness.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpu/device/gpu_snapshot.h"

namespace gpuyard {
namespace {

// The readings that a decision about new work rests on, with their names for people.
constexpr std::array kRequiredMetrics = {
    std::pair(Metric::temperature_core, "temperature"),
    std::pair(Metric::memory_total, "memory"),
    std::pair(Metric::memory_used, "memory in use"),
    std::pair(Metric::mig_mode, "MIG mode"),
};

bool is_unknown(MissingReason reason) {
  return reason != MissingReason::not_supported;
}

// Names the required readings that are missing for a reason that counts, by their reasons.
std::string missing_readings(const DeviceState& device, bool (*counts)(MissingReason)) {
  std::vector<std::pair<std::string, std::vector<std::string_view>>> by_reason;
  const auto add = [&](std::string_view name, const Missing& why) {
    if (!counts(why.reason)) return;
    auto same =
        std::ranges::find(by_reason, describe(why), [](const auto& one) { return one.first; });
    if (same == by_reason.end()) same = by_reason.insert(same, {describe(why), {}});
    same->second.push_back(name);
  };
  for (const auto& [metric, name] : kRequiredMetrics) {
    const Reading* const reading = device.sample.find(metric);
    if (reading == nullptr) {
      add(name, Missing{});
    } else if (const Missing* const missing = reading->missing()) {
      add(name, *missing);
    }
  }
  const Reading errors = uncorrectable_errors(device.sample);
  if (const Missing* const missing = errors.missing()) add("ECC errors", *missing);
  const auto& list = device.sample.processes();
  if (!list) {
    add("processes", Missing{});
  } else if (const auto* const missing = std::get_if<Missing>(&list->value)) {
    add("processes", *missing);
  }
  std::vector<std::string> texts;
  for (const auto& [reason, names] : by_reason) {
    texts.push_back(fmt::format("{} ({})", fmt::join(names, ", "), reason));
  }
  return texts.empty() ? "" : fmt::format("unknown: {}", fmt::join(texts, "; "));
}

// The driver's word for it says no more.
std::string lost_text(const std::string& why) {
  return why == "GPU is lost" ? "lost" : "lost: " + why;
}

}  // namespace

Fitness fitness_of(const DeviceState& device) {
  using enum Verdict;
  if (is_lost(device)) return {bad, "lost", lost_text(device.why)};
  if (device.condition != DeviceCondition::responsive) {
    return {bad, "unresponsive", "not usable now: " + device.why};
  }
  // Unhealthy whatever the cause, its temperature included: that is what the word means.
  if (device.health.verdict == Health::unhealthy) {
    return {bad, "unhealthy", fmt::format("unhealthy: {}", fmt::join(device.health.reasons, "; "))};
  }
  const std::int64_t* const mig = device.sample.number(Metric::mig_mode);
  if (mig != nullptr && *mig != 0) {
    return {bad, "mig_enabled", "in MIG mode: its instances are not leased"};
  }
  std::string unknowns = unknown_readings(device);
  return unknowns.empty() ? Fitness{good} : Fitness{unknown, "unknown", std::move(unknowns)};
}

std::string unknown_readings(const DeviceState& device) {
  return missing_readings(device, is_unknown);
}

std::string failed_readings(const DeviceState& device) {
  return missing_readings(device, is_failure);
}

bool is_sick(const DeviceState& device, TimePoint now) {
  switch (device.condition) {
    case DeviceCondition::responsive:
      return false;
    case DeviceCondition::unavailable:
      return true;
    case DeviceCondition::unresponsive:
      return device.vitals_at && now - *device.vitals_at >= kSickTimeout;
  }
  return true;
}

}  // namespace gpuyard
