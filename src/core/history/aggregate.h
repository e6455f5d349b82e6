// What many readings come to: the least, the greatest and their exact mean. Two of them make a
// third without a loss, so that minutes can be made of tens of seconds, and hours of minutes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gpuyard::history {

struct Aggregate {
  std::int64_t min = 0;
  std::int64_t max = 0;
  // The sum of what each value has above min: small where the values are near each other, and 0
  // where they are equal. One that is too large for its type stays at the type's greatest.
  std::uint64_t excess = 0;
  std::uint32_t count = 0;

  static Aggregate of(std::int64_t value) { return {value, value, 0, 1}; }

  void add(std::int64_t value) { add(of(value)); }
  void add(const Aggregate& other);

  // Of at least one value. From min to max, whatever is lost in a double.
  double mean() const {
    const double mean = static_cast<double>(min) + static_cast<double>(excess) / count;
    return std::clamp(mean, static_cast<double>(min), static_cast<double>(max));
  }

  friend bool operator==(const Aggregate&, const Aggregate&) = default;

 private:
  // The excess over a lower min.
  std::uint64_t excess_over(std::int64_t low) const;
};

inline std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

// high - low, which may be more than an int64 holds.
inline std::uint64_t distance(std::int64_t low, std::int64_t high) {
  return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
}

inline std::uint64_t Aggregate::excess_over(std::int64_t low) const {
  std::uint64_t lifted = 0;
  if (__builtin_mul_overflow(distance(low, min), std::uint64_t{count}, &lifted)) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return saturated_sum(excess, lifted);
}

inline void Aggregate::add(const Aggregate& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const std::int64_t low = std::min(min, other.min);
  excess = saturated_sum(excess_over(low), other.excess_over(low));
  min = low;
  max = std::max(max, other.max);
  if (__builtin_add_overflow(count, other.count, &count)) {
    count = std::numeric_limits<std::uint32_t>::max();
  }
}

}  // namespace gpuyard::history
