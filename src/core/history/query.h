// A query to the history and its result: native units, wall time in milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/history/timeline.h"
#include "gpu/device/catalog.h"

namespace gpuyard::history {

inline constexpr std::uint64_t kDefaultPoints = 1000;
inline constexpr std::uint64_t kMaxPoints = 20'000;

// A query as a user wrote it.
struct QueryParameters {
  std::string since = "1h";
  std::string until = "0s";
  std::optional<std::string> step;
  std::optional<std::uint64_t> points;
};

struct Query {
  std::string uuid;
  const MetricRow* row = nullptr;
  std::uint16_t element = 0;
  std::int64_t from_ms = 0;
  std::int64_t until_ms = 0;
  std::int64_t step_ms = 0;  // 0: as fine as `points` allows
  std::uint64_t points = kDefaultPoints;
};

enum class Resolution : std::uint8_t { reading, ten_seconds, minute };
BOOST_DESCRIBE_ENUM(Resolution, reading, ten_seconds, minute)

struct QueryResult {
  Query query;
  Resolution resolution = Resolution::reading;  // of the data behind the points
  std::int64_t step_ms = 0;                     // 0: each point is a reading
  std::int64_t covers_since_ms = 0;             // nothing of this resolution is kept before
  Aggregate aggregate;                          // of the data behind the points
  std::optional<double> last;
  std::vector<TimelinePoint> points;
  std::vector<std::string> notes;
};

// Takes "90s", "2h", "7d" before `now`; a date and time ("2026-01-31T12:00:00Z"), or seconds since
// 1970. Errc::invalid lists these forms; `what` names the parameter.
Result<std::int64_t> parse_moment(std::string_view text, std::string_view what,
                                  std::int64_t now_ms);
// Takes "90s", "2h", "7d", or seconds.
Result<std::int64_t> parse_length(std::string_view text, std::string_view what);

// Sets the times of a query. Errc::invalid: `since` is not before `until`, or there would be more
// than kMaxPoints.
Result<void> set_times(Query&, const QueryParameters&, std::int64_t now_ms);

// Returns the milliseconds between two readings; 0: the metric has no history. Counters and gauges
// of the GPU itself have one, except gauges that change only with a new driver or setting.
std::int64_t cadence_of(Metric);

// Returns the shortest round length of time, of a second or more, with which a range has no more
// than so many steps.
std::int64_t step_for(std::int64_t range_ms, std::uint64_t points);
// Returns the shortest round length that is no less than this; itself beyond a day.
std::int64_t round_step(std::int64_t min_ms);

std::vector<const MetricRow*> recorded_rows();

// Finds a row by its JSON key with or without the unit, nvidia-smi's name, a short name ("power"),
// or the beginning of only one key. Errc::invalid names the nearest row, or all that may be meant.
Result<const MetricRow*> find_row(std::string_view name);

// Finds the element "0" or "device_memory" of a row that has several.
Result<std::uint16_t> find_element(const MetricRow&, std::string_view name);

}  // namespace gpuyard::history
