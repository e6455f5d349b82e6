#include "gpu/device/reading.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "gpu/device/catalog.h"

namespace gpuyard {
namespace {

std::pair<Metric, std::uint16_t> key_of(const Reading& reading) {
  return {reading.metric, reading.index};
}

struct Bound {
  Metric of;
  Metric by;
};

constexpr std::array kBounds = {Bound{Metric::memory_free, Metric::memory_total},
                                Bound{Metric::memory_used, Metric::memory_total},
                                Bound{Metric::bar1_free, Metric::bar1_total},
                                Bound{Metric::bar1_used, Metric::bar1_total},
                                Bound{Metric::temperature_core, Metric::temperature_slowdown},
                                Bound{Metric::temperature_memory, Metric::temperature_memory_max},
                                Bound{Metric::power_draw, Metric::power_limit},
                                Bound{Metric::power_draw_average, Metric::power_limit},
                                Bound{Metric::power_draw_instant, Metric::power_limit},
                                Bound{Metric::power_limit, Metric::power_limit_max},
                                Bound{Metric::power_limit_set, Metric::power_limit_max},
                                Bound{Metric::clock_graphics, Metric::clock_graphics_max},
                                Bound{Metric::clock_sm, Metric::clock_sm_max},
                                Bound{Metric::clock_memory, Metric::clock_memory_max},
                                Bound{Metric::clock_video, Metric::clock_video_max},
                                Bound{Metric::pcie_generation, Metric::pcie_generation_max},
                                Bound{Metric::pcie_width, Metric::pcie_width_max}};

struct ReasonWords {
  MissingReason reason;
  std::string_view words;
};

// A reason is written in its first words here. The others are a driver's, or an older gpuyard's.
constexpr std::array kReasons = {
    ReasonWords{MissingReason::not_supported, "not supported by this GPU or driver"},
    ReasonWords{MissingReason::no_permission, "no permission"},
    ReasonWords{MissingReason::device_lost, "the GPU is lost"},
    ReasonWords{MissingReason::driver_gone, "the driver was unloaded or replaced"},
    ReasonWords{MissingReason::timed_out, "the driver did not respond in time"},
    ReasonWords{MissingReason::not_ready, "not read yet"},
    ReasonWords{MissingReason::failed, "the driver call failed"},
    ReasonWords{MissingReason::not_supported, "Not Supported"},
    ReasonWords{MissingReason::not_supported, "Function Not Found"},
    ReasonWords{MissingReason::not_supported, "Argument version mismatch"},
    ReasonWords{MissingReason::not_supported, "The requested functionality has been deprecated"},
    ReasonWords{MissingReason::not_ready, "System is not in ready state"},
    ReasonWords{MissingReason::timed_out, "the driver did not answer in time"},
};

}  // namespace

Sample::Sample(std::vector<Reading> readings) {
  const auto unordered = std::ranges::adjacent_find(
      readings, [](const Reading& a, const Reading& b) { return key_of(a) >= key_of(b); });
  if (unordered == readings.end()) {
    readings_ = std::move(readings);
    return;
  }
  for (Reading& reading : readings) set(std::move(reading));
}

void Sample::set(Reading reading) {
  const auto at = std::ranges::lower_bound(readings_, key_of(reading), {}, key_of);
  if (at != readings_.end() && key_of(*at) == key_of(reading)) {
    *at = std::move(reading);
  } else {
    readings_.insert(at, std::move(reading));
  }
}

void Sample::clamp_times(TimePoint earliest, TimePoint latest) {
  for (Reading& reading : readings_) reading.taken = std::clamp(reading.taken, earliest, latest);
  if (processes_) processes_->taken = std::clamp(processes_->taken, earliest, latest);
}

void Sample::fill_gaps(ProbeSet probes, const Missing& why, TimePoint taken) {
  probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      if (find(metric) == nullptr) set({metric, 0, taken, why});
    }
    if (probe == Probe::processes && !processes_) set(ProcessList{taken, why});
  });
}

// Replaces the readings in place, which allocates nothing. Returns false if a row or an index comes
// or goes.
bool Sample::overwrite(const Sample& newer) {
  auto first = newer.readings_.begin();
  while (first != newer.readings_.end()) {
    const auto last = std::ranges::find_if(first, newer.readings_.end(), [&](const Reading& one) {
      return one.metric != first->metric;
    });
    const auto here = std::ranges::equal_range(readings_, first->metric, {}, &Reading::metric);
    if (!std::ranges::equal(here, std::ranges::subrange(first, last), {}, &Reading::index,
                            &Reading::index))
      return false;
    std::copy(first, last, here.begin());
    first = last;
  }
  return true;
}

void Sample::merge(const Sample& newer) {
  if (newer.processes_) processes_ = newer.processes_;
  if (overwrite(newer)) return;
  std::erase_if(readings_,
                [&](const Reading& reading) { return !newer.all(reading.metric).empty(); });
  std::vector<Reading> merged;
  merged.reserve(readings_.size() + newer.readings_.size());
  std::merge(std::move_iterator(readings_.begin()), std::move_iterator(readings_.end()),
             newer.readings_.begin(), newer.readings_.end(), std::back_inserter(merged),
             [](const Reading& a, const Reading& b) { return key_of(a) < key_of(b); });
  readings_ = std::move(merged);
}

std::span<const Reading> Sample::all(Metric metric) const {
  return std::ranges::equal_range(readings_, metric, {}, &Reading::metric);
}

const Reading* Sample::find(Metric metric, std::uint16_t index) const {
  const std::pair place(metric, index);
  const auto at = std::ranges::lower_bound(readings_, place, {}, key_of);
  return at != readings_.end() && key_of(*at) == place ? &*at : nullptr;
}

const std::int64_t* Sample::number(Metric metric, std::uint16_t index) const {
  const Reading* reading = find(metric, index);
  return reading != nullptr ? reading->number() : nullptr;
}

std::optional<std::int64_t> Sample::value(Metric metric) const {
  const std::int64_t* const value = number(metric);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::optional<double> Sample::percent_of(Metric part, Metric whole) const {
  const std::int64_t* const used = number(part);
  const std::int64_t* const all = number(whole);
  if (used == nullptr || all == nullptr || *all <= 0) return std::nullopt;
  return static_cast<double>(*used) / static_cast<double>(*all) * 100;
}

bool Sample::is_unsupported(Metric metric) const {
  const Reading* const reading = find(metric);
  const Missing* const missing = reading != nullptr ? reading->missing() : nullptr;
  return missing != nullptr && missing->reason == MissingReason::not_supported;
}

Sample missing_sample(ProbeSet probes, const Missing& why, TimePoint taken) {
  Sample sample;
  sample.fill_gaps(probes, why, taken);
  return sample;
}

std::string v0::describe(const Missing& missing) {
  if (!missing.detail.empty()) return missing.detail;
  return std::string(std::ranges::find(kReasons, missing.reason, &ReasonWords::reason)->words);
}

Missing missing_from(std::string words) {
  const auto known = std::ranges::find(kReasons, words, &ReasonWords::words);
  if (known == kReasons.end()) return {MissingReason::failed, std::move(words)};
  Missing missing{known->reason, ""};
  if (describe(missing) != words) missing.detail = std::move(words);
  return missing;
}

std::optional<std::int64_t> upper_bound_of(Metric metric, const Sample& sample) {
  constexpr std::int64_t kWhole = 100;
  if (row_of(metric).unit == Unit::percent) return kWhole;
  const auto bound = std::ranges::find(kBounds, metric, &Bound::of);
  return bound == kBounds.end() ? std::nullopt : sample.value(bound->by);
}

}  // namespace gpuyard
