#include "cli/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

namespace gpuyard::cli {
namespace {

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

struct UnitOfTime {
  std::string_view name;
  double seconds;
};
constexpr std::array kAllUnits = {UnitOfTime{"", 1},     UnitOfTime{"ms", 1e-3},
                                  UnitOfTime{"s", 1},    UnitOfTime{"m", 60},
                                  UnitOfTime{"h", 3600}, UnitOfTime{"d", 86400}};

using Units = std::span<const UnitOfTime>;
constexpr Units kWithoutDays = Units(kAllUnits).first(kAllUnits.size() - 1);

// Nothing for what is no time, or not from `shortest` to `longest`.
std::optional<Duration> time_within(std::string_view text, Units units, Duration shortest,
                                    Duration longest) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const auto unit = std::ranges::find(units, rest, &UnitOfTime::name);
  if (parsed.ec != std::errc{} || unit == units.end()) return std::nullopt;
  const double seconds = value * unit->seconds;
  // Written so that not-a-number is refused.
  if (!(seconds >= to_seconds(shortest) && seconds <= to_seconds(longest))) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(without_blanks(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<Duration> parse_interval(std::string_view text) {
  if (const auto time = time_within(text, kWithoutDays, kShortestInterval, kLongestInterval))
    return *time;
  return Error{Errc::invalid, "an interval is like 500ms, 2s or 1m, from 100ms to 24h; \"" +
                                  std::string(text) + "\" is not"};
}

Result<Duration> parse_lifetime(std::string_view text) {
  if (const auto time = time_within(text, kAllUnits, kShortestLifetime, kLongestLifetime))
    return *time;
  return Error{Errc::invalid, "a length of time is like 90s, 30m, 8h or 2d, from 1s to 365d; \"" +
                                  std::string(text) + "\" is not"};
}

}  // namespace gpuyard::cli
