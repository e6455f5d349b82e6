#include "core/bottleneck/reading_window.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gpu/device/catalog.h"

namespace gpuyard::bottleneck {
namespace {

constexpr double kFullClockPercent = 97;  // % of the highest clock: what is lost above is no reason
constexpr std::int64_t kAlwaysBusyPercent = 95;  // %
constexpr Duration kMinBusyTime = std::chrono::seconds(30);
constexpr std::size_t kMinBusySamples = 20;  // of them

std::int64_t rounded(double value) {
  return std::llround(value);
}

WindowSample window_sample_of(const DeviceState& device, TimePoint now) {
  const Sample& sample = device.sample;
  const auto clock = sample.percent_of(Metric::clock_sm, Metric::clock_sm_max);
  return {now,
          sample.value(Metric::throttle_reasons),
          sample.value(Metric::utilization_gpu),
          sample.percent_of(Metric::power_draw, Metric::power_limit),
          clock.value_or(0) < kFullClockPercent,
          sample.value(Metric::clock_sm),
          sample.value(Metric::temperature_core),
          sample.value(Metric::throttle_time_sw_thermal),
          sample.value(Metric::throttle_time_hw_thermal),
          sample.value(Metric::throttle_time_power_brake)};
}

}  // namespace

void ReadingWindow::add(const DeviceState& device, const Snapshot& snapshot) {
  const TimePoint now = snapshot.taken;
  min_samples_ = std::min(kMinSamples, static_cast<std::size_t>(kWindow / 2 / snapshot.interval));
  nvlinks_ = nvlink_tracker_.update(device, now);
  while (!samples_.empty() && now - samples_.front().at >= kWindow) samples_.pop_front();
  if (device.condition != DeviceCondition::responsive || is_lost(device)) {
    if (!unresponsive_since_) unresponsive_since_ = now;
    idle_since_.reset();
    return;
  }
  unresponsive_since_.reset();
  samples_.push_back(window_sample_of(device, now));
  const auto use = samples_.back().utilization_percent;
  if (use != 0) idle_since_.reset();
  if (use == 0 && !idle_since_) idle_since_ = now;
}

template <class Is>
std::optional<std::int64_t> ReadingWindow::share_where(Is is) const {
  std::size_t known = 0;
  std::size_t some = 0;
  for (const WindowSample& sample : samples_) {
    if (!sample.flags) continue;
    ++known;
    some += is(sample) ? 1 : 0;
  }
  if (known < min_samples_) return std::nullopt;
  return rounded(static_cast<double>(some) / static_cast<double>(known) * kHundredPercent);
}

std::optional<std::int64_t> ReadingWindow::share_of(std::int64_t flags,
                                                    std::initializer_list<Counter> counters) const {
  auto share = share_where(
      [&](const WindowSample& sample) { return sample.slowed && (*sample.flags & flags) != 0; });
  for (const Counter counter : counters) {
    if (const auto counted = counter_share(counter)) {
      share = std::max(share.value_or(0), *counted);
    }
  }
  return share;
}

// The counters are read every few seconds: nothing over less than half of the window.
std::optional<std::int64_t> ReadingWindow::counter_share(Counter counter) const {
  const WindowSample* first = nullptr;
  const WindowSample* last = nullptr;
  for (const WindowSample& sample : samples_) {
    if (!(sample.*counter)) continue;
    if (first == nullptr) first = &sample;
    last = &sample;
  }
  if (first == nullptr || last->at - first->at < kWindow / 2) return std::nullopt;
  const auto grown = static_cast<double>(*(last->*counter) - *(first->*counter));
  const auto passed = static_cast<double>(std::chrono::nanoseconds(last->at - first->at).count());
  return rounded(std::clamp(grown / passed, 0.0, 1.0) * kHundredPercent);
}

std::optional<std::int64_t> ReadingWindow::unexplained_slowdown_share() const {
  return share_where([](const WindowSample& sample) {
    const bool explained = (*sample.flags & (kHwThermal | kHwPowerBrake)) != 0;
    return !explained && (*sample.flags & kHwSlowdown) != 0;
  });
}

std::optional<std::int64_t> ReadingWindow::mean_clock(std::int64_t flags) const {
  double sum = 0;
  std::size_t samples = 0;
  for (const WindowSample& sample : samples_) {
    if (!sample.flags || !sample.clock_mhz || !sample.slowed || (*sample.flags & flags) == 0) {
      continue;
    }
    sum += static_cast<double>(*sample.clock_mhz);
    ++samples;
  }
  if (samples == 0) return std::nullopt;
  return rounded(sum / static_cast<double>(samples));
}

std::optional<std::int64_t> ReadingWindow::max_temperature() const {
  std::optional<std::int64_t> hottest;
  for (const WindowSample& sample : samples_) hottest = std::max(hottest, sample.temperature);
  return hottest;
}

std::optional<double> ReadingWindow::mean_utilization() const {
  std::size_t known = 0;
  double sum = 0;
  for (const WindowSample& sample : samples_) {
    if (!sample.utilization_percent) continue;
    ++known;
    sum += static_cast<double>(*sample.utilization_percent);
  }
  if (known < min_samples_) return std::nullopt;
  return sum / static_cast<double>(known);
}

std::optional<double> ReadingWindow::busy_power_percent(double max_percent, TimePoint now) const {
  std::size_t samples = 0;
  double power = 0;
  for (const WindowSample& sample : samples_) {
    if (now - sample.at > kMinBusyTime || !sample.utilization_percent || !sample.power_percent)
      continue;
    if (*sample.utilization_percent < kAlwaysBusyPercent || *sample.power_percent > max_percent)
      return std::nullopt;
    ++samples;
    power += *sample.power_percent;
  }
  if (samples < kMinBusySamples) return std::nullopt;
  return power / static_cast<double>(samples);
}

std::string ReadingWindow::share_text(std::int64_t share) const {
  const Duration seen = samples_.back().at - samples_.front().at;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(seen).count() + 1;
  return seen + kFastInterval >= kWindow ? fmt::format("{}% of the last minute", share)
                                         : fmt::format("{}% of the last {} s", share, seconds);
}

}  // namespace gpuyard::bottleneck
