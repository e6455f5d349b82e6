// What a reading was, in a line for each GPU: least, mean, greatest, newest, and its shape.
#pragma once

#include <string>
#include <vector>

#include "cli/screen/terminal.h"
#include "protocol/history.h"

namespace gpuyard::cli {

struct HistoryAnswer {
  int schema = protocol::kSchemaVersion;
  std::vector<protocol::History> series;
};
BOOST_DESCRIBE_STRUCT(HistoryAnswer, (), (schema, series))

// The means in so many columns of equal time, from the first point of all to the last; NaN where a
// column has none.
std::vector<double> columns_of(const protocol::History&, std::int64_t from_ms,
                               std::int64_t until_ms, std::size_t columns);

// "604.6 W", "85.5 GB/s": with about four digits.
std::string amount_text(double value, const std::string& unit);

// All of one metric; `ascii`: the shape too.
std::string history_table(const std::vector<protocol::History>&, const Screen&, bool ascii);

// From the first point to the end of the last step.
struct TimeSpan {
  std::int64_t from_ms = INT64_MAX;
  std::int64_t until_ms = INT64_MIN;
};
TimeSpan span_of(const std::vector<protocol::History>&);

inline constexpr std::size_t kSparkColumns = 40;

}  // namespace gpuyard::cli
