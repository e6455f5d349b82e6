// Rows of state.db that make no sense, as after a letter that a disk or a memory has changed. Each
// is moved to a table of its own, and said: one of them does not close all that is kept. A GPU that
// such a row may have kept from being leased is cordoned instead.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/result.h"
#include "store/sqlite.h"

namespace gpuyard::store {

// `content` has the row's columns as SQL writes them, so that they can be inserted again.
inline constexpr const char* kUnreadableTables = R"(
CREATE TABLE unreadable_rows(
  number INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  origin TEXT NOT NULL,
  key TEXT NOT NULL,
  error TEXT NOT NULL,
  content TEXT NOT NULL) STRICT;
)";

// Some rows of a table.
struct Rows {
  std::string_view table;
  std::string_view key;        // an expression that names one row
  std::string_view columns;    // with ", " between them
  std::string_view rest = {};  // "WHERE ... ORDER BY ..."
  // Which GPUs are not leased while a row cannot be read: an expression that is NULL (none) or a
  // JSON list; empty, or no such list: it may be any of them. "": the rows keep no GPU back.
  std::string_view withholds = {};
  std::string_view what = {};  // a row is, of a GPU: "a lease"
};

struct UnreadableRow {
  std::string key;
  std::string error;
};

// Moves these rows of the table out of it, and says so. Cordons the GPUs that they withhold until
// an administrator says otherwise: what they said against a lease is not known any more.
Result<void> put_aside(Database&, const Rows& of, const std::vector<UnreadableRow>&);

// Returns a sentence about the rows that were put aside, also in earlier lives; "": none.
Result<std::string> unreadable_note(Database&);

// Adds a record for each row that makes sense, and returns the others.
template <class Record, class Columns, class... Values>
Result<std::vector<UnreadableRow>> read_unsound(std::vector<Record>& records, Database& database,
                                                const Rows& of, const Columns& columns,
                                                const Values&... values) {
  auto rows = prepare(
      database, fmt::format("SELECT {}, {} FROM {} {}", of.key, of.columns, of.table, of.rest),
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

// The same; the others are put aside.
template <class Record, class Columns, class... Values>
Result<std::vector<UnreadableRow>> read_sound(std::vector<Record>& records, Database& database,
                                              const Rows& of, const Columns& columns,
                                              const Values&... values) {
  auto bad = read_unsound(records, database, of, columns, values...);
  if (!bad) return bad;
  if (auto done = put_aside(database, of, *bad); !done) return std::move(done).error();
  return bad;
}

}  // namespace gpuyard::store
