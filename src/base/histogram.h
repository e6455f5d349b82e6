// Counts of durations in the buckets that Prometheus reads.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace gpuyard {

class Histogram {
 public:
  // Upper bounds, inclusive. A longer duration counts in count() only.
  static constexpr std::array<Duration, 12> kBounds = {
      std::chrono::microseconds(250),  std::chrono::microseconds(1'000),
      std::chrono::microseconds(2500), std::chrono::milliseconds(5),
      std::chrono::milliseconds(10),   std::chrono::milliseconds(25),
      std::chrono::milliseconds(50),   std::chrono::milliseconds(100),
      std::chrono::milliseconds(250),  std::chrono::milliseconds(500),
      std::chrono::seconds(1),         std::chrono::milliseconds(2500)};

  void add(Duration value) {
    for (std::size_t i = 0; i < kBounds.size(); ++i) {
      if (value <= kBounds.at(i)) ++cumulative_counts_.at(i);
    }
    ++count_;
    sum_ += value;
  }

  // Returns how many durations were at most kBounds[bucket].
  std::uint64_t cumulative_count(std::size_t bucket) const { return cumulative_counts_.at(bucket); }
  std::uint64_t count() const { return count_; }
  Duration sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size()> cumulative_counts_{};
  std::uint64_t count_ = 0;
  Duration sum_{0};
};

}  // namespace gpuyard
