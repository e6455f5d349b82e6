// Up to 300 points of one series in few bytes: what the rings and the database keep. Decoding
// trusts no byte: a file may be damaged, or somebody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "history/aggregate.h"

namespace gpuyard::history {

// Times are milliseconds of the boot clock.
struct Point {
  std::int64_t at_ms = 0;
  std::int64_t value = 0;

  friend bool operator==(const Point&, const Point&) = default;
};

// All readings of a span that begins at at_ms.
struct Bucket {
  std::int64_t at_ms = 0;
  Aggregate of;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

inline constexpr std::size_t kBlockPoints = 300;

// From 1 to kBlockPoints of them, each later than the one before. What is missing is not there:
// the times tell.
std::string encode(std::span<const Point>);
std::string encode(std::span<const Bucket>);

// Nothing: encode() gave no such bytes.
template <class P>
std::optional<std::vector<P>> decode(std::string_view);
template <>
std::optional<std::vector<Point>> decode<Point>(std::string_view);
template <>
std::optional<std::vector<Bucket>> decode<Bucket>(std::string_view);

}  // namespace gpuyard::history
