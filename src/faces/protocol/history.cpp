#include "faces/protocol/history.h"

#include <fmt/format.h>

#include "base/json_writer.h"

namespace gpuyard::protocol {
namespace {

void put_cell(std::string& out, const std::optional<double>& value) {
  out += ',';
  if (value) json::put_double(out, *value);
}

}  // namespace

std::string csv_of(const History& history) {
  const std::string start =
      fmt::format("{},{},{},{},", history.index ? std::to_string(*history.index) : "", history.uuid,
                  history.metric, history.element.value_or(""));
  std::string out;
  for (const HistoryPoint& point : history.points) {
    out += start;
    out += to_rfc3339(WallTime(std::chrono::milliseconds(point.t_ms)));
    out += ',';
    out += std::to_string(point.t_ms);
    for (const auto& value : {point.min, point.mean, point.max}) put_cell(out, value);
    out += '\n';
  }
  return out;
}

}  // namespace gpuyard::protocol
