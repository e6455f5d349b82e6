#include "base/result.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace gpuyard {
namespace {

struct Row {
  Errc code;
  std::string_view name;
  int http_status;
  int exit_code;
};

constexpr std::array kTable = {
    Row{Errc::unsupported, "unsupported", 422, 3}, Row{Errc::not_found, "not_found", 404, 6},
    Row{Errc::denied, "denied", 403, 4},           Row{Errc::conflict, "conflict", 409, 7},
    Row{Errc::invalid, "invalid", 400, 2},         Row{Errc::busy, "busy", 503, 1},
    Row{Errc::unavailable, "unavailable", 503, 5}, Row{Errc::device_lost, "device_lost", 502, 5},
    Row{Errc::timed_out, "timed_out", 504, 5},     Row{Errc::internal, "internal", 500, 1},
};

constexpr const Row& row_of(Errc code) {
  for (const Row& row : kTable) {
    if (row.code == code) return row;
  }
  return kTable.back();
}

constexpr std::string_view kRemark = "  # ";

}  // namespace

std::string_view v0::name_of(Errc code) {
  return row_of(code).name;
}

std::string v0::Error::text() const {
  std::string out = message;
  if (!cause.empty()) out += ": " + cause;
  std::string_view steps = hint;
  for (std::string_view before = "; try `"; !steps.empty(); before = ", then `") {
    const std::string_view line = steps.substr(0, steps.find('\n'));
    steps.remove_prefix(std::min(line.size() + 1, steps.size()));
    const std::size_t end = std::min(line.find(kRemark), line.size());
    out.append(before).append(line.substr(0, end)) += '`';
    if (end < line.size()) out.append(" (").append(line.substr(end + kRemark.size())) += ')';
  }
  return out;
}

Errc errc_from_number(std::uint32_t number) {
  return number <= static_cast<std::uint32_t>(Errc::internal) ? static_cast<Errc>(number)
                                                              : Errc::internal;
}
int http_status_of(Errc code) {
  return row_of(code).http_status;
}
int exit_code_of(Errc code) {
  return row_of(code).exit_code;
}

}  // namespace gpuyard
