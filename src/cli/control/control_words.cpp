#include "cli/control/control_words.h"

#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/ascii.h"
#include "cli/words.h"

namespace gpuyard::cli {
namespace {

constexpr double kMostWatts = 1e6;
constexpr std::int64_t kMostMhz = 1'000'000;

// The number before `unit`, which may be left out or stand apart.
template <class Number>
std::optional<Number> number_of(std::string_view text, std::string_view unit) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{}) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (!rest.empty() && !equals_ignoring_case(rest, unit)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> megahertz_of(std::string_view text) {
  const auto clock = number_of<std::int64_t>(text, "MHz");
  return clock && *clock > 0 && *clock <= kMostMhz ? clock : std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_watts(std::string_view text) {
  const auto watts = number_of<double>(text, "W");
  // Written so that not-a-number is refused.
  if (!watts || !(*watts > 0 && *watts <= kMostWatts)) {
    return Error{
        Errc::invalid,
        fmt::format("a power limit is in watts, like 300, 300W or 287.5; \"{}\" is not", text)};
  }
  constexpr double kMilli = 1000;
  return static_cast<std::int64_t>(std::llround(*watts * kMilli));
}

Result<ClockRange> parse_clocks(std::string_view text) {
  const auto parts = split(text, ',');
  const auto lowest = megahertz_of(parts.front());
  const auto highest = megahertz_of(parts.back());
  if (parts.size() > 2 || !lowest || !highest) {
    return Error{Errc::invalid, fmt::format("clocks are in MHz, the lowest and the highest like "
                                            "1200,1500, or one for both; \"{}\" is not",
                                            text)};
  }
  if (*lowest > *highest) {
    return Error{Errc::invalid,
                 fmt::format("the lowest of {},{} is above the highest", *lowest, *highest)};
  }
  return ClockRange{*lowest, *highest};
}

Result<bool> parse_on_off(std::string_view text) {
  if (equals_ignoring_case(text, "on")) return true;
  if (equals_ignoring_case(text, "off")) return false;
  return Error{Errc::invalid, fmt::format("it can be on or off, not \"{}\"", text)};
}

}  // namespace gpuyard::cli
