// Unreadable rows of state.db, as after a bit flip on a disk or in memory. Each is logged and moved
// to a table of its own, so that one row does not make the whole file unusable. A GPU that the row
// may have withheld from leasing is cordoned instead.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {

// `content` has the row's columns as SQL literals, so that it can be inserted again.
inline constexpr const char* kUnreadableTables = R"(
CREATE TABLE unreadable_rows(
  number INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  origin TEXT NOT NULL,
  key TEXT NOT NULL,
  error TEXT NOT NULL,
  content TEXT NOT NULL) STRICT;
)";

// A selection of rows of a table.
struct RowSelection {
  std::string_view table;
  std::string_view key;           // an expression that names one row
  std::string_view columns;       // separated by ", "
  std::string_view clauses = {};  // "WHERE ... ORDER BY ..."
  // An expression for the GPUs that an unreadable row withholds: NULL for none, or a JSON list; an
  // empty or invalid list stands for all GPUs. "": the rows withhold no GPU.
  std::string_view withholds = {};
  std::string_view noun = {};  // the noun for a row: "a lease"
};

struct UnreadableRow {
  std::string key;
  std::string error;
};

// Moves these rows out of the table and logs it. Cordons the GPUs that they withhold until an
// administrator uncordons them, because the reason against leasing them is unknown.
Result<void> set_aside_rows(Database&, const RowSelection& selection,
                            const std::vector<UnreadableRow>&);

// Returns a message about all rows set aside, including before restarts; "": none.
Result<std::string> unreadable_note(Database&);

// Adds a record for each readable row, and returns the others.
template <class Record, class Columns, class... Values>
Result<std::vector<UnreadableRow>> read_valid_rows(std::vector<Record>& records, Database& database,
                                                   const RowSelection& selection,
                                                   const Columns& columns,
                                                   const Values&... values) {
  auto rows = prepare(database,
                      fmt::format("SELECT {}, {} FROM {} {}", selection.key, selection.columns,
                                  selection.table, selection.clauses),
                      values...);
  if (!rows) return std::move(rows).error();
  std::vector<UnreadableRow> bad;
  auto read = each_row(*rows, [&](const Statement& row) {
    RowReader reader(row, 1);
    Record record{};
    columns(reader, record);
    if (reader.fault().empty()) {
      records.push_back(std::move(record));
    } else {
      bad.push_back({std::string(row.text(0)), reader.fault()});
    }
  });
  if (!read) return std::move(read).error();
  return bad;
}

// The same, but sets the others aside.
template <class Record, class Columns, class... Values>
Result<void> read_rows(std::vector<Record>& records, Database& database,
                       const RowSelection& selection, const Columns& columns,
                       const Values&... values) {
  auto bad = read_valid_rows(records, database, selection, columns, values...);
  return bad ? set_aside_rows(database, selection, *bad) : std::move(bad).error();
}

}  // namespace gpuyard::store
