#include "core/andon/facts.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/andon/rule.h"
#include "core/andon/signals.h"
#include "gpu/device/fitness.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::andon {
namespace {

// Bits of nvmlClocksEventReasons (nvml.h): HwThermalSlowdown, HwPowerBrakeSlowdown.
constexpr std::int64_t kHwThermalSlowdown = 0x40;
constexpr std::int64_t kHwPowerBrake = 0x80;

constexpr std::string_view kCorruptedInforom = "Corrupted infoROM";  // NVML's words for its code 14

constexpr std::int64_t kHotCelsius = 70;   // C: a fan should turn
constexpr std::int64_t kBusyPercent = 50;  // %: an idle GPU lowers its link to save power

using Number = std::optional<double>;

Number bool_signal(bool active) {
  return active ? 1.0 : 0.0;
}

Number flag(const Sample& sample, std::int64_t bit) {
  const auto flags = sample.value(Metric::throttle_reasons);
  return flags ? bool_signal((*flags & bit) != 0) : std::nullopt;
}

Number margin(const Sample& sample) {
  const auto limit = sample.value(Metric::temperature_slowdown);
  const auto now = sample.value(Metric::temperature_core);
  return limit && now ? Number(static_cast<double>(*limit - *now)) : std::nullopt;
}

Number fan_stopped(const Sample& sample) {
  const auto temperature = sample.value(Metric::temperature_core);
  bool known = false;
  bool stopped = false;
  for (const Reading& fan : sample.all(Metric::fan_speed)) {
    if (fan.number() == nullptr) continue;
    known = true;
    stopped = stopped || *fan.number() == 0;
  }
  if (!known || !temperature) return std::nullopt;
  return bool_signal(stopped && *temperature >= kHotCelsius);
}

// Returns nothing while the GPU is idle, because a slow link means nothing then.
Number pcie_degraded(const Sample& sample) {
  const auto use = sample.value(Metric::utilization_gpu);
  const auto width = sample.value(Metric::pcie_width);
  const auto width_max = sample.value(Metric::pcie_width_max);
  const auto generation = sample.value(Metric::pcie_generation);
  const auto generation_max = sample.value(Metric::pcie_generation_max);
  if (!use || *use < kBusyPercent) return std::nullopt;
  if (!width || !width_max || !generation || !generation_max) return std::nullopt;
  return bool_signal(*width < *width_max || *generation < *generation_max);
}

// Returns nothing for a GPU that lacks one of the two, because nothing can be compared.
Number contradiction(const DeviceState& device) {
  if (!device.contradiction.empty()) return bool_signal(true);
  const bool both = device.sample.number(Metric::power_draw) != nullptr &&
                    device.sample.number(Metric::energy_total) != nullptr;
  return both ? bool_signal(false) : std::nullopt;
}

Number recovery_needed(const Sample& sample) {
  // nvmlDeviceGpuRecoveryAction_t: no recovery, and that of an IMEX domain, a set of machines. The
  // GPU itself works.
  constexpr std::array<std::int64_t, 2> kNotOfTheGpu = {0, 5};
  // An older driver that was installed since requests nothing.
  if (sample.is_unsupported(Metric::recovery_action)) return 0.0;
  const std::int64_t* const action = sample.number(Metric::recovery_action);
  if (action == nullptr) return std::nullopt;
  if (std::ranges::find(kNotOfTheGpu, *action) != kNotOfTheGpu.end()) return 0.0;
  const auto value = static_cast<double>(*action);
  return recovery_text(value).empty() ? std::nullopt : Number(value);
}

// A GPU is to be offered if it is healthy here. A plugin that hides another one may be right, and
// of a GPU in MIG mode it offers the instances instead: 0 for both, so that the rule's hold
// measures how long the GPU has been healthy.
Number plugin_hides(const DeviceState& device, const LeaseFacts& lease) {
  if (!lease.plugin_hides) return std::nullopt;
  if (!*lease.plugin_hides || lease.withheld) return bool_signal(false);
  switch (fitness_of(device).verdict) {
    case Verdict::good:
      return bool_signal(true);
    case Verdict::bad:
      return bool_signal(false);
    case Verdict::unknown:
      return std::nullopt;
  }
  return std::nullopt;
}

Number health(const DeviceState& device) {
  return device.health.verdict ? Number(static_cast<double>(*device.health.verdict)) : std::nullopt;
}

std::string reason_of(const DeviceState& device) {
  if (!device.why.empty()) return device.why;
  return fmt::format("{}", fmt::join(device.health.reasons, "; "));
}

// Returns nothing for a GPU of which nothing was read.
Number inforom_corrupted(const DeviceState& device) {
  const auto says = [](const Missing* why) {
    return why != nullptr && why->detail == kCorruptedInforom;
  };
  if (device.info.fault && says(&*device.info.fault)) return bool_signal(true);
  const auto& readings = device.sample.readings();
  if (readings.empty()) return std::nullopt;
  return bool_signal(
      std::ranges::any_of(readings, [&](const Reading& one) { return says(one.missing()); }));
}

// Returns the age of the newest value among the readings that are taken every second. A reading
// that failed is no value, so the age grows while all of them fail. Returns nothing for a GPU that
// has none of them. While polling is paused, the readings are old on purpose.
Number stale(const DeviceState& device, TimePoint now) {
  if (is_polling_paused(device)) return 0.0;
  std::optional<TimePoint> newest;
  bool fails = false;
  for (const Metric metric : kVitals) {
    const Reading* const reading = device.sample.find(metric);
    if (reading == nullptr) continue;
    const Missing* const missing = reading->missing();
    fails = fails || (missing != nullptr && is_failure(missing->reason));
    if (missing == nullptr) newest = std::max(newest.value_or(reading->taken), reading->taken);
  }
  if (!newest && fails) newest = device.vitals_at;
  if (!newest) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(now - *newest).count());
}

// Whether any process computes on the GPU; nothing if its list is not known.
std::optional<bool> is_in_use(const DeviceState& device) {
  const auto* const processes = device.sample.listed_processes();
  if (processes == nullptr) return std::nullopt;
  return std::ranges::any_of(
      *processes, [](const GpuProcess& one) { return one.kind != ProcessKind::graphics; });
}

std::optional<bool> logical_and(std::optional<bool> one, std::optional<bool> other) {
  if (one == false || other == false) return false;
  return one && other ? std::optional(true) : std::nullopt;
}

}  // namespace

Number FactCollector::DurationTracker::update(std::optional<bool> active, TimePoint now) {
  if (!active || !*active) {
    last_true_at_.reset();
    if (active) elapsed_ = {};
    return active ? Number(0.0) : std::nullopt;
  }
  if (last_true_at_) elapsed_ += std::max(now - *last_true_at_, Duration::zero());
  last_true_at_ = now;
  return std::chrono::duration<double>(elapsed_).count();
}

void FactCollector::update_idle(const DeviceState& device, const LeaseFacts& lease,
                                Signals& signals, TimePoint now) {
  const bool answers = device.condition == DeviceCondition::responsive;
  const Number use = answers ? device.sample.value(Metric::utilization_gpu) : std::nullopt;
  const std::optional<bool> idle = use ? std::optional(*use == 0) : std::nullopt;
  const auto used = answers ? is_in_use(device) : std::nullopt;
  Idle& trackers = idle_[device.info.id];
  // The idle time of one lease is not that of the next.
  if (lease.leased && std::exchange(trackers.lease, lease.lease) != lease.lease)
    trackers.leased = {};
  signals[Signal::idle] = trackers.in_use.update(logical_and(idle, used), now);
  signals[Signal::reserved_idle] = trackers.leased.update(logical_and(idle, lease.leased), now);
}

GpuFacts FactCollector::collect_gpu(const DeviceState& device, const LeaseFacts& lease,
                                    TimePoint now) {
  GpuFacts gpu;
  gpu.info = device.info;
  gpu.why = reason_of(device);
  gpu.pod = lease.pod;
  Signals& signals = gpu.signals;
  signals[Signal::health] = health(device);
  signals[Signal::lost] = bool_signal(is_lost(device) && !is_missing(device.info));
  signals[Signal::missing] = bool_signal(is_missing(device.info));
  signals[Signal::unresponsive] = bool_signal(device.condition == DeviceCondition::unresponsive);
  signals[Signal::inforom_corrupted] = inforom_corrupted(device);
  signals[Signal::unreadable] =
      bool_signal(device.condition == DeviceCondition::unavailable && !is_lost(device));
  signals[Signal::stale] = stale(device, now);
  // A GPU that is split into instances is never leased, so none of its processes is unleased.
  const bool split = device.sample.value(Metric::mig_mode).value_or(0) != 0;
  if (lease.unleased_processes && !split) {
    signals[Signal::unleased_processes] = static_cast<double>(*lease.unleased_processes);
    gpu.unleased = lease.unleased_text;
  }
  signals[Signal::plugin_hides] = plugin_hides(device, lease);
  update_idle(device, lease, signals, now);
  // An old temperature is not the present one.
  if (device.condition != DeviceCondition::responsive || is_polling_paused(device)) return gpu;
  const Sample& sample = device.sample;
  gpu.sample = &sample;
  signals[Signal::temperature] = sample.value(Metric::temperature_core);
  signals[Signal::slowdown_margin] = margin(sample);
  signals[Signal::memory_used] = sample.percent_of(Metric::memory_used, Metric::memory_total);
  signals[Signal::power_used] = sample.percent_of(Metric::power_draw, Metric::power_limit);
  signals[Signal::thermal_slowdown] = flag(sample, kHwThermalSlowdown);
  signals[Signal::power_brake] = flag(sample, kHwPowerBrake);
  signals[Signal::fan_stopped] = fan_stopped(sample);
  signals[Signal::pcie_degraded] = pcie_degraded(sample);
  if (const auto links = nvlink_trackers_[device.info.id].update(device, now)) {
    signals[Signal::nvlinks_down] = static_cast<double>(links->down.size());
  }
  signals[Signal::readings_contradict] = contradiction(device);
  signals[Signal::recovery_needed] = recovery_needed(sample);
  return gpu;
}

Facts FactCollector::collect(const Snapshot& snapshot, const std::map<DeviceId, LeaseFacts>& leases,
                             TimePoint now) {
  Facts facts;
  facts.simulated = snapshot.driver.info.simulated;
  facts.node[Signal::driver_down] = bool_signal(!snapshot.driver.initialised);
  if (snapshot.driver.initialised) {
    const auto missing = std::ranges::count_if(
        snapshot.devices, [](const DeviceState& device) { return is_missing(device.info); });
    facts.node[Signal::gpus] = static_cast<double>(std::ssize(snapshot.devices) - missing);
    facts.node[Signal::gpus_missing] = static_cast<double>(missing);
  }
  std::set<DeviceId> present;
  for (const DeviceState& device : snapshot.devices) {
    present.insert(device.info.id);
    const auto lease = leases.find(device.info.id);
    const bool known = snapshot.driver.initialised;
    if (known) {
      facts.gpus.push_back(
          collect_gpu(device, lease != leases.end() ? lease->second : LeaseFacts{}, now));
    } else {
      idle_[device.info.id].in_use.update(std::nullopt, now);
      idle_[device.info.id].leased.update(std::nullopt, now);
      facts.gpus.push_back({.info = device.info, .signals = {}});  // the GPU was not read
    }
  }
  std::erase_if(idle_, [&](const auto& one) { return present.count(one.first) == 0; });
  std::erase_if(nvlink_trackers_, [&](const auto& one) { return present.count(one.first) == 0; });
  return facts;
}

}  // namespace gpuyard::andon
