// What should be of a GPU, as the user wrote it. Errors are Errc::invalid and say what would be
// right.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace gpuyard::cli {

// "300", "300W", "287.5 W"; in milliwatts.
Result<std::int64_t> parse_watts(std::string_view text);

struct ClockRange {
  std::int64_t lowest_mhz = 0;
  std::int64_t highest_mhz = 0;

  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};
// "1200,1500", "1400" for both; with or without "MHz".
Result<ClockRange> parse_clocks(std::string_view text);

// "on", "off"
Result<bool> parse_on_off(std::string_view text);

}  // namespace gpuyard::cli
