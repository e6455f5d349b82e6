#include "gpu/device/plausible.h"

#include <utility>

#include "gpu/device/catalog.h"

namespace gpuyard {
namespace {

// The most that a value can be is `factor` times the limit, and `more`. The limit itself may be
// wrong: below `least_limit` it is not used.
struct OwnLimit {
  Metric of;
  Metric limit;
  std::int64_t factor;
  std::int64_t more;
  std::int64_t least_limit;
};

// A board may exceed its power limit for a moment, and a clock its nominal maximum when it is
// overclocked. Neither triples. Above its shutdown temperature a chip switches itself off.
constexpr std::int64_t kMaxOvershootFactor = 3;
constexpr std::int64_t kMinPowerLimitMw = 10'000;
constexpr std::int64_t kMinClockLimitMhz = 100;
constexpr std::int64_t kMinTemperatureLimit = 60;
constexpr std::int64_t kMaxExcessCelsius = 50;

constexpr std::array kOwnLimits = {
    OwnLimit{Metric::power_draw, Metric::power_limit_max, kMaxOvershootFactor, 0, kMinPowerLimitMw},
    OwnLimit{Metric::power_draw_average, Metric::power_limit_max, kMaxOvershootFactor, 0,
             kMinPowerLimitMw},
    OwnLimit{Metric::power_draw_instant, Metric::power_limit_max, kMaxOvershootFactor, 0,
             kMinPowerLimitMw},
    OwnLimit{Metric::clock_graphics, Metric::clock_graphics_max, kMaxOvershootFactor, 0,
             kMinClockLimitMhz},
    OwnLimit{Metric::clock_sm, Metric::clock_sm_max, kMaxOvershootFactor, 0, kMinClockLimitMhz},
    OwnLimit{Metric::clock_memory, Metric::clock_memory_max, kMaxOvershootFactor, 0,
             kMinClockLimitMhz},
    OwnLimit{Metric::clock_video, Metric::clock_video_max, kMaxOvershootFactor, 0,
             kMinClockLimitMhz},
    OwnLimit{Metric::temperature_core, Metric::temperature_shutdown, 1, kMaxExcessCelsius,
             kMinTemperatureLimit},
    OwnLimit{Metric::temperature_memory, Metric::temperature_memory_max, 1, kMaxExcessCelsius,
             kMinTemperatureLimit},
    OwnLimit{Metric::memory_free, Metric::memory_total, 1, 0, 1},
    OwnLimit{Metric::memory_used, Metric::memory_total, 1, 0, 1},
    OwnLimit{Metric::memory_reserved, Metric::memory_total, 1, 0, 1},
    OwnLimit{Metric::bar1_free, Metric::bar1_total, 1, 0, 1},
    OwnLimit{Metric::bar1_used, Metric::bar1_total, 1, 0, 1},
};

void mark_implausible(Reading& reading) {
  reading.value = Missing{MissingReason::failed, kImplausible};
}

}  // namespace

Reading reject_implausible(Reading reading) {
  const std::int64_t* const number = reading.number();
  if (number != nullptr && !row_of(reading.metric).bounds.contains(*number))
    mark_implausible(reading);
  return reading;
}

void PlausibilityFilter::apply(Sample& sample) {
  for (const OwnLimit& own : kOwnLimits) {
    std::optional<std::int64_t>& limit = limits_[static_cast<std::size_t>(own.limit)];
    if (const std::int64_t* const value = sample.number(own.limit)) limit = *value;
    const Reading* const reading = sample.find(own.of);
    if (!limit || *limit < own.least_limit || reading == nullptr) continue;
    const std::int64_t* const number = reading->number();
    if (number == nullptr || *number <= *limit * own.factor + own.more) continue;
    Reading beyond = *reading;
    mark_implausible(beyond);
    sample.set(std::move(beyond));
  }
}

}  // namespace gpuyard
