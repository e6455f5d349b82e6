#include "device/reading.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "device/catalog.h"

namespace gpuyard {
namespace {

bool before(const Reading& a, std::pair<Metric, std::uint16_t> b) {
  return std::tie(a.metric, a.index) < std::tie(b.first, b.second);
}

}  // namespace

void Sample::set(Reading reading) {
  const auto at = std::lower_bound(readings_.begin(), readings_.end(),
                                   std::pair(reading.metric, reading.index), before);
  if (at != readings_.end() && at->metric == reading.metric && at->index == reading.index) {
    *at = std::move(reading);
  } else {
    readings_.insert(at, std::move(reading));
  }
}

void Sample::merge(const Sample& newer) {
  const auto earlier = [](const Reading& a, const Reading& b) {
    return std::tie(a.metric, a.index) < std::tie(b.metric, b.index);
  };
  std::erase_if(readings_,
                [&](const Reading& reading) { return !newer.all(reading.metric).empty(); });
  std::vector<Reading> merged;
  merged.reserve(readings_.size() + newer.readings_.size());
  std::merge(std::move_iterator(readings_.begin()), std::move_iterator(readings_.end()),
             newer.readings_.begin(), newer.readings_.end(), std::back_inserter(merged), earlier);
  readings_ = std::move(merged);
  if (newer.processes_) processes_ = newer.processes_;
}

std::span<const Reading> Sample::all(Metric metric) const {
  const auto first = std::lower_bound(readings_.begin(), readings_.end(),
                                      std::pair(metric, std::uint16_t{0}), before);
  auto last = first;
  while (last != readings_.end() && last->metric == metric) ++last;
  return {first, last};
}

const Reading* Sample::find(Metric metric, std::uint16_t index) const {
  const auto at =
      std::lower_bound(readings_.begin(), readings_.end(), std::pair(metric, index), before);
  const bool found = at != readings_.end() && at->metric == metric && at->index == index;
  return found ? &*at : nullptr;
}

const std::int64_t* Sample::number(Metric metric, std::uint16_t index) const {
  const Reading* reading = find(metric, index);
  return reading != nullptr ? reading->number() : nullptr;
}

Sample missing_sample(ProbeSet probes, const Missing& why, TimePoint taken) {
  Sample sample;
  probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) sample.set({metric, 0, taken, why});
    if (probe == Probe::processes) sample.set(ProcessList{taken, why});
  });
  return sample;
}

}  // namespace gpuyard
