// Shared by the tables of state.db: how times and empty values are written, and how rows are
// visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/record.h"
#include "base/result.h"
#include "base/try.h"
#include "io/store/sqlite.h"

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

// Turns a comma-separated list into JSON for json_each(): "a,b" becomes ["a","b"].
std::string json_list(std::string_view with_commas);

// A record as a row. The columns of a table are named once, for both directions, by a generic
// lambda with the record's members in the order of the columns:
//   constexpr auto kColumns = [](auto& row, auto& cordon) { row(cordon.gpu, cordon.by); };
// A time is nanoseconds of the boot clock or milliseconds of the wall clock, an enum its name, a
// list JSON, and a missing value NULL.
// `Target` is a statement, or the columns of a record in a journal (column_bytes.h).
template <class Target>
class RowWriter {
 public:
  explicit RowWriter(Target& target, int first = 1) : target_(target), at_(first) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  // Writes a value that the column has in another form.
  template <class T, class To, class From>
  void as(const T& value, To&& to, From&&) {
    put(to(value));
  }
  // Writes a value that may be missing and has `count` columns.
  template <class T, class Columns>
  void nullable(const std::optional<T>& value, int count, Columns&& columns) {
    if (value) return columns(*this, *value);
    while (count-- > 0) target_.bind_null(at_++);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (is_optional<T>) {
      if (value) return put(*value);
      target_.bind_null(at_++);
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      target_.bind(at_++, std::string_view(value));
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      put(ns(value));
    } else if constexpr (std::is_same_v<T, WallTime>) {
      put(ms(value));
    } else if constexpr (std::is_same_v<T, Duration>) {
      put(value.count());
    } else if constexpr (DescribedEnum<T>) {
      put(enum_name(value));
    } else if constexpr (is_vector<T>) {
      put(json::to_json(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      target_.bind(at_++, double{value});
    } else {
      static_assert(std::is_integral_v<T>, "a row has no form for this type");
      target_.bind(at_++, static_cast<std::int64_t>(value));
    }
  }

  Target& target_;
  int at_;
};

// Reads a row into a record. Goes on after a column that makes no sense, and remembers the first
// one.
template <class Source>
class RowReader {
 public:
  explicit RowReader(const Source& row, int first = 0) : row_(row), at_(first) {}

  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  // `from` says whether the form makes sense.
  template <class T, class To, class From>
  void as(T& value, To&&, From&& from) {
    std::decay_t<std::invoke_result_t<To, const T&>> form{};
    take(form);
    if (!from(form, value)) fault("is invalid");
  }
  template <class T, class Columns>
  void nullable(std::optional<T>& value, int count, Columns&& columns) {
    if (!row_.is_null(at_)) return columns(*this, value.emplace());
    value.reset();
    at_ += count;
  }

  // "column uid: out of range"; "" where all made sense.
  const std::string& fault() const { return fault_; }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (is_optional<T>) {
      nullable(value, 1, [](RowReader& row, auto& there) { row(there); });
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = row_.text(at_++);
    } else if constexpr (std::is_same_v<T, TimePoint>) {
      value = point_of(row_.integer(at_++));
    } else if constexpr (std::is_same_v<T, WallTime>) {
      value = WallTime(std::chrono::milliseconds(row_.integer(at_++)));
    } else if constexpr (std::is_same_v<T, Duration>) {
      value = Duration(row_.integer(at_++));
    } else if constexpr (DescribedEnum<T>) {
      const auto known = enum_from_name<T>(row_.text(at_++));
      if (!known) fault("unknown value");
      value = known.value_or(T{});
    } else if constexpr (is_vector<T>) {
      auto read = json::from_json<T>(row_.text(at_++));
      if (!read) fault(read.error().text());
      value = read ? *std::move(read) : T{};
    } else if constexpr (std::is_floating_point_v<T>) {
      value = row_.real(at_++);
    } else {
      const std::int64_t number = row_.integer(at_++);
      bool fits = number == 0 || number == 1;
      // An unsigned 64-bit number may use every bit of the column.
      if constexpr (!std::is_same_v<T, bool>) {
        fits = sizeof(T) == sizeof number || std::in_range<T>(number);
      }
      if (!fits) fault("out of range");
      value = static_cast<T>(number);
    }
  }
  void fault(std::string_view what) {
    if (fault_.empty()) fault_ = fmt::format("column {}: {}", row_.name(at_ - 1), what);
  }

  const Source& row_;
  int at_;
  std::string fault_;
};

template <class Record, class Columns>
Record record_of(const Statement& row, const Columns& columns, int first = 0) {
  RowReader reader(row, first);
  Record record{};
  columns(reader, record);
  return record;
}

// Compiles a statement and binds these parameters.
template <class... Values>
Result<Statement> prepare(Database& database, std::string_view text, const Values&... values) {
  auto statement = database.prepare(text);
  if (statement) RowWriter{*statement}(values...);
  return statement;
}

// Runs a statement that gives no rows, with these parameters.
template <class... Values>
Result<void> run(Database& database, std::string_view text, const Values&... values) {
  auto statement = prepare(database, text, values...);
  return statement ? statement->run() : Result<void>(std::move(statement).error());
}

// Runs a statement once for each record, with the record's columns as the parameters.
template <class Records, class Columns>
Result<void> run_for_each(Database& database, std::string_view text, const Records& records,
                          const Columns& columns) {
  if (std::ranges::empty(records)) return {};
  auto statement = GPUYARD_TRY(database.prepare(text));
  for (const auto& record : records) {
    RowWriter row(statement);
    columns(row, record);
    GPUYARD_TRY(statement.run());
  }
  return {};
}
// The columns of a value that is one column itself.
inline constexpr auto kSingleColumn = [](auto& row, auto& value) { row(value); };

// Calls take(row) for every row.
template <class Take>
Result<void> each_row(Statement& rows, Take&& take) {
  for (;;) {
    const auto row = GPUYARD_TRY(rows.step());
    if (!row) return {};
    take(rows);
  }
}
template <class Take>
Result<void> each_row(Database& database, std::string_view query, Take&& take) {
  auto rows = GPUYARD_TRY(database.prepare(query));
  return each_row(rows, std::forward<Take>(take));
}

// Adds a record for each row that a query with these parameters gives.
template <class Record, class Columns, class... Values>
Result<void> read_into(std::vector<Record>& records, Database& database, std::string_view query,
                       const Columns& columns, const Values&... values) {
  auto rows = GPUYARD_TRY(prepare(database, query, values...));
  return each_row(
      rows, [&](const Statement& row) { records.push_back(record_of<Record>(row, columns)); });
}

}  // namespace gpuyard::store
