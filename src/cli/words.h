// Words that the user gave in one text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::cli {

// The parts between the separators, without blanks around them. An empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

// "500ms", "2s", "1m"; a bare number is seconds, "0.5" too. Errc::invalid outside of
// kShortestInterval..kLongestInterval.
inline constexpr Duration kShortestInterval = std::chrono::milliseconds(100);
inline constexpr Duration kLongestInterval = std::chrono::hours(24);
Result<Duration> parse_interval(std::string_view text);

// How long something is to last: "90s", "30m", "8h", "2d"; a bare number is seconds. Errc::invalid
// outside of kShortestLifetime..kLongestLifetime.
inline constexpr Duration kShortestLifetime = std::chrono::seconds(1);
inline constexpr Duration kLongestLifetime = std::chrono::days(365);
Result<Duration> parse_lifetime(std::string_view text);

}  // namespace gpuyard::cli
