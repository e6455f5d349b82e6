#include "io/store/unreadable.h"

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "core/lease/lease_storage.h"

namespace gpuyard::store {
namespace {

// The oldest above this number are deleted, so that a badly damaged file does not grow without
// limit.
constexpr std::int64_t kMaxUnreadableRows = 1000;

// "quote(id) || ', ' || quote(uid)" for a table of these two columns.
Result<std::string> quoted_columns(Database& database, std::string_view table) {
  std::vector<std::string> names;
  auto read =
      read_into(names, database, "SELECT name FROM pragma_table_info(?)", kSingleColumn, table);
  if (!read) return std::move(read).error();
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}quote({})", text.empty() ? "" : " || ', ' || ", name);
  }
  return text;
}

// Returns nothing if the row withholds no GPU.
Result<std::optional<std::vector<DeviceId>>> find_withheld_gpus(Database& database,
                                                                const RowSelection& selection,
                                                                const std::string& key) {
  std::optional<std::vector<DeviceId>> gpus;
  if (selection.withholds.empty()) return gpus;
  auto row = prepare(database,
                     fmt::format("SELECT {} FROM {} WHERE {} = ?", selection.withholds,
                                 selection.table, selection.key),
                     key);
  if (!row) return std::move(row).error();
  auto read = each_row(*row, [&](const Statement& columns) {
    if (columns.is_null(0)) return;
    RowReader reader(columns);
    reader(gpus.emplace());
    if (gpus->empty()) gpus->emplace_back(lease::kEveryGpu);
  });
  if (!read) return std::move(read).error();
  return gpus;
}

Result<void> cordon_withheld_gpus(Database& database, const RowSelection& selection,
                                  const UnreadableRow& one) {
  const auto gpus = GPUYARD_TRY(find_withheld_gpus(database, selection, one.key));
  if (!gpus) return {};
  for (const DeviceId& gpu : *gpus) {
    const bool any = gpu == lease::kEveryGpu;
    const std::string reason = fmt::format(
        "{} {} ({}: {}); check the GPU, then uncordon it (see docs/recovery.md)", selection.noun,
        any ? "could not be read and may be of any GPU" : "of this GPU could not be read",
        printable(one.key), printable(one.error));
    auto done = run(database,
                    "INSERT INTO lease_cordons VALUES(?,?,?,?) ON CONFLICT(gpu) DO UPDATE SET "
                    "reason = excluded.reason || '; and: ' || reason",
                    gpu, std::string_view("gpuyard"), reason, wall_now());
    // Uncordons of an earlier unreadable row do not apply to this one, which may be of the same
    // GPU.
    if (done && any) {
      done = run(database, "DELETE FROM lease_cordons WHERE gpu <> ?1 AND gpu LIKE ?1 || '%'",
                 std::string_view(lease::kEveryGpu));
    }
    if (!done) return done;
  }
  return {};
}

}  // namespace

Result<void> set_aside_rows(Database& database, const RowSelection& selection,
                            const std::vector<UnreadableRow>& bad) {
  if (bad.empty()) return {};
  const auto columns = GPUYARD_TRY(quoted_columns(database, selection.table));
  const std::string copy = fmt::format(
      "INSERT INTO unreadable_rows SELECT NULL, ?2, ?3, ?1, ?4, {} FROM {} WHERE {} = ?1", columns,
      selection.table, selection.key);
  const std::string remove =
      fmt::format("DELETE FROM {} WHERE {} = ?1", selection.table, selection.key);
  constexpr std::size_t kMaxRemarks = 4;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const UnreadableRow& one = bad[i];
    auto done = cordon_withheld_gpus(database, selection, one);
    if (done) done = run(database, copy, one.key, wall_now(), selection.table, one.error);
    if (done) done = run(database, remove, one.key);
    if (!done) return done;
    if (i >= kMaxRemarks) continue;
    database.add_remark(
        fmt::format("{}: row {} of the table {} could not be read ({}) and was moved to the table "
                    "unreadable_rows; see docs/recovery.md",
                    database.path(), printable(one.key), selection.table, printable(one.error)));
  }
  if (bad.size() > kMaxRemarks) {
    database.add_remark(
        fmt::format("{}: {} more rows of the table {} could not be read and were moved to the "
                    "table unreadable_rows",
                    database.path(), bad.size() - kMaxRemarks, selection.table));
  }
  return run(database,
             "DELETE FROM unreadable_rows WHERE number <= (SELECT max(number) FROM "
             "unreadable_rows) - ?",
             kMaxUnreadableRows);
}

Result<std::string> unreadable_note(Database& database) {
  const auto known =
      database.query_number("SELECT count(*) FROM sqlite_master WHERE name = 'unreadable_rows'");
  if (!known) return known.error();
  if (*known == 0) return std::string();
  const auto rows = GPUYARD_TRY(database.query_number("SELECT count(*) FROM unreadable_rows"));
  if (rows == 0) return std::string();
  return fmt::format(
      "{} unreadable row{} {} in the table unreadable_rows of {}; see docs/recovery.md", rows,
      rows == 1 ? "" : "s", rows == 1 ? "is" : "are", database.path());
}

}  // namespace gpuyard::store
