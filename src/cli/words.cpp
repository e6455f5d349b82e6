#include "cli/words.h"

#include <algorithm>
#include <array>
#include <charconv>

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
constexpr std::array kUnits = {UnitOfTime{"", 1}, UnitOfTime{"ms", 1e-3}, UnitOfTime{"s", 1},
                               UnitOfTime{"m", 60}, UnitOfTime{"h", 3600}};

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
  const Error refused{Errc::invalid, "an interval is like 500ms, 2s or 1m, from 100ms to 24h; \"" +
                                         std::string(text) + "\" is not"};
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const auto unit = std::ranges::find(kUnits, rest, &UnitOfTime::name);
  if (parsed.ec != std::errc{} || unit == kUnits.end()) return refused;
  const double seconds = value * unit->seconds;
  const auto in_seconds = [](Duration duration) {
    return std::chrono::duration<double>(duration).count();
  };
  // Written so that not-a-number is refused.
  if (!(seconds >= in_seconds(kShortestInterval) && seconds <= in_seconds(kLongestInterval))) {
    return refused;
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace gpuyard::cli
