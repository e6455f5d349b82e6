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

// Names values that should be known and are not, each with its reason.
class UnknownReadings {
 public:
  using Counts = bool (*)(MissingReason);

  explicit UnknownReadings(Counts counts) : counts_(counts) {}

  void add(std::string_view what, const Missing& why) {
    if (!counts_(why.reason)) return;
    const std::string reason = describe(why);
    const auto same = std::ranges::find(all_, reason, &Group::reason);
    if (same != all_.end()) {
      same->names.emplace_back(what);
    } else {
      all_.push_back({reason, {std::string(what)}});
    }
  }
  bool empty() const { return all_.empty(); }
  std::string text() const {
    std::vector<std::string> texts;
    for (const Group& group : all_) {
      texts.push_back(fmt::format("{} ({})", fmt::join(group.names, ", "), group.reason));
    }
    return fmt::format("unknown: {}", fmt::join(texts, "; "));
  }

 private:
  struct Group {
    std::string reason;
    std::vector<std::string> names;
  };
  const Counts counts_;
  std::vector<Group> all_;
};

void add_reading(const DeviceState& device, Metric metric, const char* name,
                 UnknownReadings& unknowns) {
  const Reading* const reading = device.sample.find(metric);
  if (reading == nullptr) return unknowns.add(name, Missing{});
  if (const Missing* const missing = reading->missing()) unknowns.add(name, *missing);
}

bool is_unknown(MissingReason reason) {
  return reason != MissingReason::not_supported;
}

UnknownReadings unknown_readings_of(const DeviceState& device, UnknownReadings::Counts counts) {
  UnknownReadings unknowns(counts);
  for (const auto& [metric, name] : kRequiredMetrics) add_reading(device, metric, name, unknowns);
  const Reading errors = uncorrectable_errors(device.sample);
  if (const Missing* const missing = errors.missing()) unknowns.add("ECC errors", *missing);
  const auto& list = device.sample.processes();
  if (!list) {
    unknowns.add("processes", Missing{});
  } else if (const auto* const missing = std::get_if<Missing>(&list->value)) {
    unknowns.add("processes", *missing);
  }
  return unknowns;
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
  const UnknownReadings unknowns = unknown_readings_of(device, is_unknown);
  return unknowns.empty() ? "" : unknowns.text();
}

std::string failed_readings(const DeviceState& device) {
  const UnknownReadings failed = unknown_readings_of(device, is_failure);
  return failed.empty() ? "" : failed.text();
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
