#include "telemetry/flight.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/catalog.h"

namespace gpuyard::telemetry {
namespace {

const Reading* fresh_reading(const Sample& sample, Metric metric, TimePoint since) {
  const Reading* reading = sample.find(metric);
  return reading != nullptr && reading->taken >= since ? reading : nullptr;
}

bool answered_since(const Track& track, const Flight& flight) {
  bool all = true;
  flight.probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      all = all && fresh_reading(track.sample(), metric, flight.began) != nullptr;
    }
  });
  return all;
}

Missing why_not(const DeviceState& device, const Snapshot& snapshot) {
  if (device.info.fault) return *device.info.fault;
  if (!snapshot.driver.initialised) return {MissingReason::failed, snapshot.driver.why};
  if (device.condition == DeviceCondition::unresponsive) {
    return {MissingReason::timed_out, "the driver has stopped answering for this GPU"};
  }
  return {MissingReason::timed_out,
          fmt::format("the driver did not answer within {} ms", to_milliseconds(kFreshDeadline))};
}

}  // namespace

bool has_landed(const Flight& flight, const std::vector<Track>& tracks, TimePoint now) {
  return std::all_of(tracks.begin(), tracks.end(), [&](const Track& track) {
    return !track.readable() || track.unresponsive(now) || answered_since(track, flight);
  });
}

Snapshot only_fresh(Snapshot all, const Flight& flight) {
  for (DeviceState& device : all.devices) {
    const Sample before = std::exchange(
        device.sample, missing_sample(flight.probes, why_not(device, all), all.taken));
    for (const Reading& reading : before.readings()) {
      const bool asked = device.sample.find(reading.metric) != nullptr;
      if (asked && reading.taken >= flight.began) device.sample.set(reading);
    }
    const auto& list = before.processes();
    const bool listed = flight.probes.contains(Probe::processes) && list.has_value();
    if (listed && list->taken >= flight.began) device.sample.set(*list);
  }
  return all;
}

}  // namespace gpuyard::telemetry
