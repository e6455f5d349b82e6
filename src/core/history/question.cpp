#include "history/question.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "history/store.h"

namespace gpuyard::history {
namespace {

struct UnitOfTime {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::array kUnits = {UnitOfTime{"ms", 1},           UnitOfTime{"s", 1000},
                               UnitOfTime{"m", 60'000},       UnitOfTime{"h", kHourMs},
                               UnitOfTime{"d", 24 * kHourMs}, UnitOfTime{"w", kHourMs * 24 * 7}};

constexpr std::int64_t kLongestMs = kHourMs * 24 * 365 * 100;

// A decimal number; `rest` is what follows it.
std::optional<double> number(std::string_view text, std::string_view& rest) {
  double value = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (parsed.ec != std::errc{}) return std::nullopt;
  rest = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  return value;
}

std::optional<std::int64_t> length_of(std::string_view text, std::string_view plain_unit) {
  std::string_view rest;
  const auto value = number(text, rest);
  const auto unit = std::ranges::find(kUnits, rest.empty() ? plain_unit : rest, &UnitOfTime::name);
  if (!value || unit == kUnits.end()) return std::nullopt;
  const double ms = *value * static_cast<double>(unit->ms);
  if (!(ms >= 0 && ms <= static_cast<double>(kLongestMs))) return std::nullopt;
  return static_cast<std::int64_t>(ms);
}

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  int value = 0;
  if (text.size() < at + count) return std::nullopt;
  for (const char c : text.substr(at, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Seconds that follow the minute: ":05.250Z", "Z" or nothing.
std::optional<double> seconds_of(std::string_view text) {
  if (text.ends_with('Z') || text.ends_with('z')) text.remove_suffix(1);
  if (text.empty()) return 0.0;
  std::string_view rest;
  if (!text.starts_with(':') || !digits(text, 1, 2)) return std::nullopt;
  const auto value = number(text.substr(1), rest);
  return value && rest.empty() && *value < 61 ? value : std::nullopt;
}

// RFC 3339 in UTC; seconds and the Z may be left out, and a blank may be the T.
std::optional<std::int64_t> date_time(std::string_view text) {
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const std::chrono::milliseconds begin = std::chrono::sys_days(date).time_since_epoch();
  if (text.size() == 10) return begin.count();
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59 || text[13] != ':') return std::nullopt;
  if (text[10] != 'T' && text[10] != 't' && text[10] != ' ') return std::nullopt;
  const auto seconds = seconds_of(text.substr(16));
  if (!seconds) return std::nullopt;
  return begin.count() + *hour * kHourMs + *minute * kMinuteMs +
         static_cast<std::int64_t>(*seconds * 1000);
}

std::string length_text(std::int64_t ms) {
  for (auto unit = kUnits.rbegin(); unit != kUnits.rend(); ++unit) {
    if (ms % unit->ms == 0 && ms != 0 && unit->name != "w") {
      return fmt::format("{}{}", ms / unit->ms, unit->name);
    }
  }
  return "0s";
}

}  // namespace

Result<std::int64_t> parse_length(std::string_view text, std::string_view what) {
  if (const auto length = length_of(text, "s")) return *length;
  return Error{
      Errc::invalid,
      fmt::format("{} is a length of time like 10s, 5m, 2h or 7d, not \"{}\"", what, text)};
}

Result<std::int64_t> parse_moment(std::string_view text, std::string_view what,
                                  std::int64_t now_ms) {
  if (text == "now") return now_ms;
  if (const auto moment = date_time(text)) return *moment;
  if (const auto ago = length_of(text, "")) return now_ms - *ago;
  if (const auto seconds = length_of(text, "s")) return *seconds;
  return Error{Errc::invalid, fmt::format("{} is a time before now like 90s, 2h or 7d, a time like "
                                          "2026-01-31T12:00:00Z, or seconds since 1970, not \"{}\"",
                                          what, text)};
}

Result<void> set_times(Question& question, const Wish& wish, std::int64_t now_ms) {
  const auto from = parse_moment(wish.since, "since", now_ms);
  if (!from) return from.error();
  const auto until = parse_moment(wish.until, "until", now_ms);
  if (!until) return until.error();
  if (*from >= *until) return Error{Errc::invalid, "since must be before until"};
  question.from_ms = *from;
  question.until_ms = *until;
  question.points = wish.points.value_or(kDefaultPoints);
  if (question.points < 1 || question.points > kMaxPoints) {
    return Error{Errc::invalid, fmt::format("points is a number from 1 to {}", kMaxPoints)};
  }
  if (!wish.step) return {};
  if (wish.points)
    return Error{Errc::invalid, "step or points, not both: one follows from the other"};
  const auto step = parse_length(*wish.step, "step");
  if (!step) return step.error();
  // Nothing is kept for longer, so that a longer range has no more points.
  const std::int64_t range = std::min(question.until_ms - question.from_ms, kMinutesKeptMs);
  const std::int64_t least = range / static_cast<std::int64_t>(kMaxPoints) + 1;
  if (*step < std::max<std::int64_t>(least, 1000)) {
    const std::int64_t enough = (std::max<std::int64_t>(least, 1000) + 999) / 1000 * 1000;
    return Error{Errc::invalid,
                 fmt::format("a step of {} is too short for this range: it would be more than {} "
                             "points, or shorter than a second; from {} on it fits",
                             length_text(*step), kMaxPoints, length_text(enough))};
  }
  question.step_ms = *step;
  return {};
}

}  // namespace gpuyard::history
