#include "core/history/query.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/try.h"
#include "core/history/history.h"

namespace gpuyard::history {
namespace {

struct UnitOfTime {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::array kUnits = {UnitOfTime{"ms", 1},           UnitOfTime{"s", 1000},
                               UnitOfTime{"m", 60'000},       UnitOfTime{"h", kHourMs},
                               UnitOfTime{"d", 24 * kHourMs}, UnitOfTime{"w", kHourMs * 24 * 7}};

constexpr std::int64_t kMaxDurationMs = kHourMs * 24 * 365 * 100;

// Reads a decimal number; `rest` is the text after it.
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
  if (!(ms >= 0 && ms <= static_cast<double>(kMaxDurationMs))) return std::nullopt;
  return static_cast<std::int64_t>(ms);
}

std::optional<unsigned> parse_digits(std::string_view text, std::size_t at, std::size_t count) {
  if (text.size() < at + count) return std::nullopt;
  return parse_number<unsigned>(text.substr(at, count));
}

// Reads the seconds after the minute: ":05.250Z", "Z" or nothing.
std::optional<double> seconds_of(std::string_view text) {
  if (text.ends_with('Z') || text.ends_with('z')) text.remove_suffix(1);
  if (text.empty()) return 0.0;
  std::string_view rest;
  if (!text.starts_with(':') || !parse_digits(text, 1, 2)) return std::nullopt;
  const auto value = number(text.substr(1), rest);
  return value && rest.empty() && *value < 61 ? value : std::nullopt;
}

// Reads RFC 3339 in UTC. Seconds and the Z may be left out, and a blank may replace the T.
std::optional<std::int64_t> parse_date_time(std::string_view text) {
  const auto year = parse_digits(text, 0, 4);
  const auto month = parse_digits(text, 5, 2);
  const auto day = parse_digits(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  const std::chrono::milliseconds begin = std::chrono::sys_days(date).time_since_epoch();
  if (text.size() == 10) return begin.count();
  const auto hour = parse_digits(text, 11, 2);
  const auto minute = parse_digits(text, 14, 2);
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

// Round lengths, in ms.
constexpr std::array<std::int64_t, 20> kSteps = {
    1'000,     2'000,       5'000,       10'000,      15'000,       20'000,      30'000,
    kMinuteMs, 120'000,     300'000,     600'000,     900'000,      1'200'000,   1'800'000,
    kHourMs,   2 * kHourMs, 3 * kHourMs, 6 * kHourMs, 12 * kHourMs, 24 * kHourMs};

struct ShortName {
  std::string_view name;
  Metric metric;
};
// Names for the first of several similar rows.
constexpr std::array kShortNames = {
    ShortName{"power", Metric::power_draw},
    ShortName{"temperature", Metric::temperature_core},
    ShortName{"temp", Metric::temperature_core},
    ShortName{"utilization", Metric::utilization_gpu},
    ShortName{"utilisation", Metric::utilization_gpu},
    ShortName{"util", Metric::utilization_gpu},
    ShortName{"memory", Metric::memory_used},
    ShortName{"clock", Metric::clock_sm},
};

Duration period_of(Tier tier) {
  if (tier == Tier::fast) return kFastInterval;
  return tier == Tier::slow ? kSlowInterval : kRareInterval;
}

bool is_recorded(const MetricRow& row, Tier tier) {
  if (row.subject != MetricSubject::device) return false;
  return row.kind == MetricKind::counter || (row.kind == MetricKind::gauge && tier != Tier::rare);
}

using Cadences = std::array<std::int64_t, kMetricCount>;

Cadences cadences() {
  Cadences all{};
  for (const ProbeRow& probe : probes()) {
    for (const Metric metric : probe.fills) {
      if (!is_recorded(row_of(metric), probe.tier)) continue;
      all[static_cast<std::size_t>(metric)] = to_milliseconds(period_of(probe.tier));
    }
  }
  return all;
}

bool matches_name(const MetricRow& row, std::string_view name) {
  return name == row.key || name == json_key(row) || (!name.empty() && name == row.nvidia_smi);
}

Error unknown_metric_error(std::string_view name) {
  std::vector<std::string> keys;
  for (const MetricRow* row : recorded_rows()) {
    keys.push_back(json_key(*row));
    keys.emplace_back(row->key);
    keys.emplace_back(row->nvidia_smi);
  }
  for (const ShortName& one : kShortNames) keys.emplace_back(one.name);
  const auto known = std::ranges::find_if(
      catalog(), [&](const MetricRow& row) { return matches_name(row, name); });
  if (known != catalog().end()) {
    return {
        Errc::invalid,
        fmt::format("\"{}\" has no history: only numbers that change by themselves are recorded",
                    name)};
  }
  return {Errc::invalid, unknown_word("metric", name, {keys.begin(), keys.end()}), "",
          "gpuyard query --list"};
}

Error ambiguous_metric_error(std::string_view name, const std::vector<const MetricRow*>& rows) {
  std::vector<std::string> keys;
  for (const MetricRow* row : rows) keys.push_back(json_key(*row));
  return {Errc::invalid,
          fmt::format("\"{}\" is ambiguous; it matches {}", name, fmt::join(keys, ", "))};
}

}  // namespace

Result<std::int64_t> parse_length(std::string_view text, std::string_view what) {
  if (const auto length = length_of(text, "s")) return *length;
  return Error{
      Errc::invalid,
      fmt::format("{}: expected a duration such as 10s, 5m, 2h or 7d; got \"{}\"", what, text)};
}

Result<std::int64_t> parse_moment(std::string_view text, std::string_view what,
                                  std::int64_t now_ms) {
  if (text == "now") return now_ms;
  if (const auto moment = parse_date_time(text)) return *moment;
  if (const auto ago = length_of(text, "")) return now_ms - *ago;
  if (const auto seconds = length_of(text, "s")) return *seconds;
  return Error{Errc::invalid,
               fmt::format("{}: expected how long ago, such as 90s, 2h or 7d, a time such as "
                           "2026-01-31T12:00:00Z, or seconds since 1970; got \"{}\"",
                           what, text)};
}

std::int64_t round_step(std::int64_t min_ms) {
  const auto step = std::ranges::lower_bound(kSteps, min_ms);
  return step != kSteps.end() ? *step : min_ms;
}

std::int64_t step_for(std::int64_t range_ms, std::uint64_t points) {
  return round_step((range_ms - 1) / static_cast<std::int64_t>(points) + 1);
}

Result<void> set_times(Query& query, const QueryParameters& parameters, std::int64_t now_ms) {
  const auto from = GPUYARD_TRY(parse_moment(parameters.since, "since", now_ms));
  const auto until = GPUYARD_TRY(parse_moment(parameters.until, "until", now_ms));
  if (from >= until) return Error{Errc::invalid, "since must be before until"};
  query.from_ms = from;
  query.until_ms = until;
  query.points = parameters.points.value_or(kDefaultPoints);
  if (query.points < 1 || query.points > kMaxPoints) {
    return Error{Errc::invalid, fmt::format("points: expected a number from 1 to {}", kMaxPoints)};
  }
  if (!parameters.step) return {};
  if (parameters.points) return Error{Errc::invalid, "give step or points, not both"};
  const auto step = GPUYARD_TRY(parse_length(*parameters.step, "step"));
  // Minutes are kept no longer, so that a longer range has no more points.
  const std::int64_t range = std::min(query.until_ms - query.from_ms, kMinuteRetentionMs);
  const std::int64_t min_step = range / static_cast<std::int64_t>(kMaxPoints) + 1;
  if (step < std::max<std::int64_t>(min_step, 1000)) {
    const std::int64_t enough = (std::max<std::int64_t>(min_step, 1000) + 999) / 1000 * 1000;
    return Error{Errc::invalid, fmt::format("step: expected {} or more for this range; got \"{}\"",
                                            length_text(enough), printable(*parameters.step))};
  }
  query.step_ms = step;
  return {};
}

std::int64_t cadence_of(Metric metric) {
  static const Cadences all = cadences();
  return all[static_cast<std::size_t>(metric)];
}

std::vector<const MetricRow*> recorded_rows() {
  std::vector<const MetricRow*> rows;
  for (const MetricRow& row : catalog()) {
    if (cadence_of(row.metric) > 0) rows.push_back(&row);
  }
  return rows;
}

Result<const MetricRow*> find_row(std::string_view given) {
  const std::string name = to_lower(given);
  const auto rows = recorded_rows();
  const auto exact =
      std::ranges::find_if(rows, [&](const MetricRow* row) { return matches_name(*row, name); });
  if (exact != rows.end()) return *exact;
  const auto alias = std::ranges::find(kShortNames, name, &ShortName::name);
  if (alias != kShortNames.end()) return &row_of(alias->metric);
  std::vector<const MetricRow*> begun;
  std::ranges::copy_if(rows, std::back_inserter(begun),
                       [&](const MetricRow* row) { return row->key.starts_with(name); });
  if (name.empty() || begun.empty()) return unknown_metric_error(given);
  if (begun.size() > 1) return ambiguous_metric_error(given, begun);
  return begun.front();
}

Result<std::uint16_t> find_element(const MetricRow& row, std::string_view name) {
  if (row.dimension == Dimension::none) {
    return Error{Errc::invalid,
                 fmt::format("there is one {} per GPU: omit the element", json_key(row))};
  }
  for (std::uint16_t i = 0; i < extent_of(row.dimension); ++i) {
    if (element_of(row.dimension, i) == name) return i;
  }
  const auto last = static_cast<std::uint16_t>(extent_of(row.dimension) - 1);
  return Error{Errc::invalid,
               fmt::format("element: expected a {} of {}, {} to {}; got \"{}\"",
                           label_of(row.dimension), json_key(row), element_of(row.dimension, 0),
                           element_of(row.dimension, last), printable(name))};
}

}  // namespace gpuyard::history
