#include "gpu/device/power_sources.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard {
namespace {

// Readings that come faster are left out: a counter is not updated as often.
constexpr Duration kMinStep = std::chrono::milliseconds(500);
constexpr Duration kMaxStep = std::chrono::seconds(5);
constexpr std::int64_t kBusyPercent = 90;  // %

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

bool PowerSources::Means::has_contradiction() const {
  const auto [less, more] = std::minmax(counted, read);
  return more - less >= kMinDifferenceMw && more / kMinRatio >= less;
}

std::string PowerSources::Means::text() const {
  return fmt::format(
      "its power readings contradict each other: it reads {} W, and its energy counter grows by "
      "{} W",
      read / 1000, counted / 1000);
}

void PowerSources::update(const Sample& sample) {
  if (const Reading* const average = sample.find(Metric::power_draw_average)) {
    averaged_ = average->number() != nullptr;
  }
  if (const Reading* const use = sample.find(Metric::utilization_gpu)) {
    const std::int64_t* const percent = use->number();
    utilization_ = percent != nullptr ? std::optional(*percent) : std::nullopt;
  }
  const Reading* const counter = sample.find(Metric::energy_total);
  const Reading* const power = sample.find(Metric::power_draw);
  if (counter == nullptr || power == nullptr) return;
  const std::int64_t* const counted = counter->number();
  const std::int64_t* const read = power->number();
  const bool both = counted != nullptr && read != nullptr;
  const TimePoint now = counter->taken;
  if (!points_.empty() && now - points_.back().taken_at >= kContradictionRetention) {
    contradiction_.clear();
    points_.clear();
    changed_since_.reset();
  }
  if (!both) return;
  add({now, *counted, *read, utilization_});
}

void PowerSources::add(const Point& point) {
  if (!points_.empty()) {
    const Point& last = points_.back();
    if (point.taken_at - last.taken_at < kMinStep) return;
    // After a gap, or after the counter has started over, there is nothing to compare with.
    if (point.taken_at - last.taken_at > kMaxStep || point.counter_mj < last.counter_mj) {
      points_.clear();
      changed_since_.reset();
    }
  }
  points_.push_back(point);
  while (points_.size() > 2 && point.taken_at - points_[1].taken_at >= kMeanWindow)
    points_.pop_front();
  const auto found = means();
  if (!found || (found->has_contradiction() && is_explained_by_bursts(*found))) {
    changed_since_.reset();
  } else {
    evaluate(*found, point.taken_at);
  }
}

std::optional<PowerSources::Means> PowerSources::means() const {
  const Point& first = points_.front();
  const Point& last = points_.back();
  const Duration span = last.taken_at - first.taken_at;
  if (span < kMeanWindow) return std::nullopt;
  double read = 0;  // mW x ns
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const auto step = static_cast<double>((points_[i].taken_at - points_[i - 1].taken_at).count());
    read += static_cast<double>(points_[i].power_mw + points_[i - 1].power_mw) / 2 * step;
  }
  const auto time = static_cast<double>(span.count());
  const double grown =
      static_cast<double>(last.counter_mj - first.counter_mj) * kNanosecondsPerSecond;
  return Means{static_cast<std::int64_t>(grown / time), static_cast<std::int64_t>(read / time)};
}

bool PowerSources::is_explained_by_bursts(const Means& means) const {
  if (averaged_ || means.counted == 0) return false;
  const auto always = [&](auto holds) {
    return std::ranges::all_of(points_, [&](const Point& point) {
      return point.utilization && holds(*point.utilization);
    });
  };
  return means.counted > means.read ? !always([](std::int64_t use) { return use >= kBusyPercent; })
                                    : !always([](std::int64_t use) { return use == 0; });
}

void PowerSources::evaluate(const Means& means, TimePoint now) {
  const bool contradict = means.has_contradiction();
  if (contradict == !contradiction_.empty()) {
    changed_since_.reset();
    return;
  }
  if (!changed_since_) changed_since_ = now;
  if (now - *changed_since_ < kMinContradictionDuration) return;
  contradiction_ = contradict ? means.text() : "";
  changed_since_.reset();
}

}  // namespace gpuyard
