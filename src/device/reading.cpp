#include "device/reading.h"

#include <algorithm>
#include <tuple>

#include "device/catalog.h"

namespace gpuyard {
namespace {

bool before(const Reading& a, std::pair<Metric, std::uint16_t> b) {
  return std::tie(a.metric, a.index) < std::tie(b.first, b.second);
}

}  // namespace

std::string describe(const Missing& missing) {
  if (!missing.detail.empty()) return missing.detail;
  switch (missing.reason) {
    case MissingReason::not_supported:
      return "not supported by this GPU or driver";
    case MissingReason::no_permission:
      return "no permission";
    case MissingReason::device_lost:
      return "the GPU is lost";
    case MissingReason::driver_gone:
      return "the driver was unloaded or replaced";
    case MissingReason::timed_out:
      return "the driver did not answer in time";
    case MissingReason::not_ready:
      return "not read yet";
    case MissingReason::failed:
      break;
  }
  return "the driver call failed";
}

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
  for (const Reading& reading : newer.readings_) set(reading);
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
  });
  return sample;
}

}  // namespace gpuyard
