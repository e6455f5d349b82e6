// The past as tables: the history of a reading, a line for each GPU: least, mean, greatest, newest,
// and its shape; and why the GPUs were slow.
#pragma once

#include <string>
#include <vector>

#include "cli/screen/screen.h"
#include "faces/protocol/history.h"

namespace gpuyard::cli {

struct HistoryAnswer {
  int schema = protocol::kSchemaVersion;
  std::vector<protocol::History> series;
};
BOOST_DESCRIBE_STRUCT(HistoryAnswer, (), (schema, series))

// Returns the means in columns of equal time from `from_ms` to `until_ms`; NaN for a column without
// points.
std::vector<double> columns_of(const protocol::History&, std::int64_t from_ms,
                               std::int64_t until_ms, std::size_t columns);

// "604.6 W", "85.5 GB/s": uses about four digits.
std::string amount_text(double value, const std::string& unit);

// Returns the table of one metric. `ascii` draws the shape in ASCII, too.
Printable history_table(const std::vector<protocol::History>&, const Screen&, bool ascii);

// The time from the first point to the end of the last step.
struct TimeSpan {
  std::int64_t from_ms = INT64_MAX;
  std::int64_t until_ms = INT64_MIN;
};
TimeSpan span_of(const std::vector<protocol::History>&);

inline constexpr std::size_t kSparkColumns = 40;

// Returns the share of each cause, a line for each GPU, and the spans in which one was slow, the
// newest last.
Printable bottleneck_tables(const protocol::Bottlenecks&, const Screen&, WallTime now);

}  // namespace gpuyard::cli
