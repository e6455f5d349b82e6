// Encodes up to 300 points of one series in few bytes, for the rings and the database. Decoding
// trusts no byte: a file may be damaged, or written by another program.
//
// Integers one after the other in few bytes, without a loss: bit-packed offsets, differences or
// differences of differences, whichever is shortest. Knows no time and no metric.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::history {

// The least, the greatest and the exact mean of many readings. Two aggregates add up without a
// loss, so that minutes can be made of tens of seconds, and hours of minutes.
struct Aggregate {
  std::int64_t min = 0;
  std::int64_t max = 0;
  // The sum of each value's excess over min: small where the values are near each other, and 0
  // where they are equal. A sum that is too large for its type stays at the type's greatest.
  std::uint64_t excess = 0;
  std::uint32_t count = 0;

  static Aggregate of(std::int64_t value) { return {value, value, 0, 1}; }

  void add(std::int64_t value) { add(of(value)); }
  void add(const Aggregate& other);

  // Needs at least one value. The result is between min and max in spite of rounding.
  double mean() const {
    const double mean = static_cast<double>(min) + static_cast<double>(excess) / count;
    return std::clamp(mean, static_cast<double>(min), static_cast<double>(max));
  }

  friend bool operator==(const Aggregate&, const Aggregate&) = default;

 private:
  // Returns the excess over a lower min.
  std::uint64_t excess_over(std::int64_t low) const;
};

inline std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

// Returns high - low, which an int64 may not hold.
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

// Times are milliseconds of the boot clock.
struct Point {
  std::int64_t at_ms = 0;
  std::int64_t value = 0;

  friend bool operator==(const Point&, const Point&) = default;
};

// All readings of a span that begins at at_ms.
struct Bucket {
  std::int64_t at_ms = 0;
  Aggregate aggregate;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

inline constexpr std::size_t kMaxBlockPoints = 300;

// Takes 1 to kMaxBlockPoints points, each later than the one before. A missing point is left out:
// the times show the gap.
std::string encode(std::span<const Point>);
std::string encode(std::span<const Bucket>);

// Returns nothing for bytes that encode() does not make.
template <class P>
std::optional<std::vector<P>> decode(std::string_view);
template <>
std::optional<std::vector<Point>> decode<Point>(std::string_view);
template <>
std::optional<std::vector<Bucket>> decode<Bucket>(std::string_view);

void put_varint(std::string& out, std::uint64_t);
// Takes few bytes for small numbers of either sign.
void put_signed(std::string& out, std::int64_t);

// The number of values is not in the bytes: the reader has to know it.
void put_column(std::string& out, std::span<const std::int64_t> values);

// Reads back what was put, in the same order, from untrusted bytes. After the first failure ok() is
// false, and all values are zeros.
class ColumnReader {
 public:
  explicit ColumnReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t varint();
  std::int64_t signed_varint();
  // Any number of values costs no bytes, so the caller bounds `count`.
  std::vector<std::int64_t> column(std::size_t count);

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::vector<std::uint64_t> packed(std::size_t count, unsigned width);

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace gpuyard::history
