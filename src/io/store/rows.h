// What the tables of state.db have in common: how times and empty values are written, and how rows
// are visited.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "store/sqlite.h"

namespace gpuyard::store {

inline std::int64_t ns(TimePoint point) {
  return point.time_since_epoch().count();
}
inline std::int64_t ms(WallTime wall) {
  return wall.time_since_epoch().count();
}
inline TimePoint point_of(std::int64_t ns) {
  return TimePoint(Duration(ns));
}
inline WallTime wall_of(std::int64_t ms) {
  return WallTime(std::chrono::milliseconds(ms));
}

inline Statement& bind_optional(Statement& statement, int parameter,
                                const std::optional<std::int64_t>& value) {
  return value ? statement.bind(parameter, *value) : statement.bind_null(parameter);
}
inline std::optional<std::int64_t> optional_integer(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.integer(column));
}

// Calls take(row) for every row.
template <class Take>
Result<void> each_row(Statement& rows, Take&& take) {
  for (;;) {
    const auto row = rows.step();
    if (!row) return row.error();
    if (!*row) return {};
    take(rows);
  }
}
template <class Take>
Result<void> each_row(Database& database, std::string_view query, Take&& take) {
  auto rows = database.prepare(query);
  if (!rows) return std::move(rows).error();
  return each_row(*rows, std::forward<Take>(take));
}

}  // namespace gpuyard::store
