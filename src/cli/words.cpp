#include "cli/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "base/ascii.h"

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

// Levenshtein's, whatever the case.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (to_lower(a[i - 1]) == to_lower(b[j - 1]) ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
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

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t fewest = word.size() / 2 + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t changes = distance(word, candidate);
    if (changes < fewest) {
      fewest = changes;
      best = candidate;
    }
  }
  return best;
}

}  // namespace gpuyard::cli
