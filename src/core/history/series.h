// One metric of one GPU over time, in memory: each reading for an hour, and what ten seconds came
// to for a day.
#pragma once

#include <cstdint>

#include "device/metric.h"
#include "history/ring.h"

namespace gpuyard::history {

inline constexpr std::int64_t kReadingsKeptMs = std::int64_t{60} * 60 * 1000;
inline constexpr std::int64_t kTensMs = 10'000;
inline constexpr std::int64_t kTensKeptMs = 24 * kReadingsKeptMs;
inline constexpr std::int64_t kMinuteMs = 60'000;

// The moment at which a span of `length_ms` begins that holds `at_ms`, whatever the sign.
constexpr std::int64_t span_begin(std::int64_t at_ms, std::int64_t length_ms) {
  const std::int64_t into = at_ms % length_ms;
  return at_ms - (into < 0 ? into + length_ms : into);
}

// A reading that comes this near to its time is kept as of that time: the loop's jitter of a few
// milliseconds would cost more than the values.
inline constexpr std::int64_t kJitterMs = 50;

class Series {
 public:
  Series(Metric metric, std::uint16_t element, std::int64_t cadence_ms)
      : metric_(metric), element_(element), cadence_ms_(cadence_ms) {}

  Metric metric() const { return metric_; }
  std::uint16_t element() const { return element_; }
  std::int64_t cadence_ms() const { return cadence_ms_; }

  // False, and nothing changes: not newer than the one before, which it may well be.
  bool feed(std::int64_t taken_ms, std::int64_t value);
  // What is too old at this moment goes.
  void forget(std::int64_t now_ms);
  // False: there was none.
  bool drop_oldest_block();

  bool empty() const { return !readings_.first_ms() && !tens_.first_ms() && open_.of.count == 0; }
  std::size_t bytes() const { return sizeof(Series) + readings_.bytes() + tens_.bytes(); }
  // Of the block that drop_oldest_block() would drop; nothing: there is none.
  std::optional<std::int64_t> oldest_block_ms() const;

  View<Point> readings(std::int64_t from_ms) const { return readings_.view(from_ms); }
  // The open one among them.
  View<Bucket> tens(std::int64_t from_ms) const;
  // Since when each holds all that came: the beginning, or what went last.
  std::int64_t readings_since_ms() const {
    return std::max(born_ms_, readings_.complete_since_ms());
  }
  std::int64_t tens_since_ms() const { return std::max(born_ms_, tens_.complete_since_ms()); }
  // The same of the minutes that can be made of them: those that began before are somebody else's.
  std::int64_t minutes_since_ms() const {
    const bool all = tens_.complete_since_ms() <= born_ms_;
    return span_begin(all ? born_ms_ : tens_.complete_since_ms() + kMinuteMs - 1, kMinuteMs);
  }

 private:
  Metric metric_;
  std::uint16_t element_;
  std::int64_t cadence_ms_;
  std::int64_t born_ms_ = INT64_MIN;   // the first reading
  std::int64_t taken_ms_ = INT64_MIN;  // of the newest reading, as it was
  std::int64_t kept_ms_ = INT64_MIN;   // and as it is kept
  Ring<Point> readings_;
  Ring<Bucket> tens_;
  Bucket open_;
};

}  // namespace gpuyard::history
