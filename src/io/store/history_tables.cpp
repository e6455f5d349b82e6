#include "io/store/history_tables.h"

#include <algorithm>
#include <ranges>

#include "base/try.h"
#include "core/history/block.h"
#include "core/history/rings.h"

namespace gpuyard::store {
namespace {

using history::Bucket;
using history::DaemonRun;
using history::kHourMs;
using history::span_begin;

// Clustered by series and time: a query reads neighbouring rows.
constexpr const char* kTables = R"(
  CREATE TABLE runs(
    id INTEGER PRIMARY KEY, boot TEXT NOT NULL, wall_offset_ms INTEGER NOT NULL,
    first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, UNIQUE(boot, first_ms));
  CREATE TABLE clock_steps(
    run INTEGER NOT NULL, at_ms INTEGER NOT NULL, by_ms INTEGER NOT NULL,
    PRIMARY KEY(run, at_ms)) WITHOUT ROWID;
  CREATE TABLE series(
    id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, metric TEXT NOT NULL, element INTEGER NOT NULL,
    UNIQUE(uuid, metric, element));
  CREATE TABLE minutes(
    series INTEGER NOT NULL, run INTEGER NOT NULL, hour_ms INTEGER NOT NULL, points BLOB NOT NULL,
    PRIMARY KEY(series, run, hour_ms)) WITHOUT ROWID;
)";

// A table of its own: an earlier gpuyard left it out, and does not mind it.
constexpr const char* kProcessSpanTables = R"(
  CREATE TABLE IF NOT EXISTS stays(
    gpu TEXT NOT NULL, pid INTEGER NOT NULL, started_boot_ms INTEGER NOT NULL, boot TEXT NOT NULL,
    started INTEGER, uid INTEGER, user TEXT NOT NULL, command TEXT NOT NULL, lease TEXT NOT NULL,
    peak_bytes INTEGER, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
    over INTEGER NOT NULL, PRIMARY KEY(gpu, pid, started_boot_ms, boot)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS stays_seen ON stays(last_seen);
)";
constexpr auto kProcessSpan = [](auto& row, auto& span) {
  row(span.gpu, span.pid, span.started_boot_ms, span.boot_id, span.started, span.uid, span.user,
      span.command, span.lease, span.peak_memory_bytes, span.first_seen, span.last_seen, span.over);
};

// The same. The times are named as those of process spans are.
constexpr const char* kBottleneckSpanTables = R"(
  CREATE TABLE IF NOT EXISTS spells(
    gpu TEXT NOT NULL, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
    over INTEGER NOT NULL, cause TEXT NOT NULL, inferred INTEGER NOT NULL, share_percent INTEGER,
    brief TEXT NOT NULL, text TEXT NOT NULL, advice TEXT NOT NULL, not_known TEXT NOT NULL,
    PRIMARY KEY(gpu, first_seen)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS spells_seen ON spells(last_seen);
)";
constexpr auto kBottleneckSpan = [](auto& row, auto& span) {
  row(span.gpu, span.first_seen, span.last_seen, span.over, span.bottleneck.cause,
      span.bottleneck.inferred, span.bottleneck.share_percent, span.bottleneck.brief,
      span.bottleneck.text, span.bottleneck.advice, span.bottleneck.not_known);
};

constexpr auto kClockStep = [](auto& row, auto& step) { row(step.at_ms, step.by_ms); };

Blob as_blob(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string_view as_text(Blob blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

// Reads the records that touch the time. One with a word of a newer gpuyard is skipped.
template <class Record, class Columns>
Result<std::vector<Record>> records_of(Database& database, const std::string& table,
                                       const RecordQuery<Record>& query, const Columns& columns) {
  std::vector<Record> records;
  auto rows =
      GPUYARD_TRY(prepare(database,
                          "SELECT * FROM " + table +
                              " WHERE last_seen>=? AND first_seen<? ORDER BY first_seen DESC, gpu",
                          query.from, query.until));
  while (records.size() <= query.most) {
    const auto row = GPUYARD_TRY(rows.step());
    if (!row) break;
    RowReader reader(rows);
    Record record{};
    columns(reader, record);
    if (reader.fault().empty() && query.matches(record)) records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

Result<HistoryTables> HistoryTables::create(Database database) {
  HistoryTables tables(std::move(database));
  const auto version = GPUYARD_TRY(tables.database_.schema_version());
  auto made = tables.database_.execute(kProcessSpanTables);
  if (made) made = tables.database_.execute(kBottleneckSpanTables);
  if (made && version == 0) made = tables.database_.execute(kTables);
  if (made && version == 0) made = tables.database_.set_schema_version(kSchemaVersion);
  if (!made) return std::move(made).error();
  return tables;
}

Result<std::int64_t> HistoryTables::ensure_run(const DaemonRun& present) {
  const std::string_view boot = present.boot_id;
  GPUYARD_TRY(run(database_,
                  "INSERT INTO runs(boot, wall_offset_ms, first_ms, last_ms) VALUES(?1,?2,?3,?4) "
                  "ON CONFLICT(boot, first_ms) DO UPDATE SET wall_offset_ms=?2, last_ms=?4",
                  boot, present.wall_offset_ms, present.first_ms, present.last_ms));
  auto query =
      prepare(database_, "SELECT id FROM runs WHERE boot=? AND first_ms=?", boot, present.first_ms);
  if (!query) return std::move(query).error();
  GPUYARD_TRY(query->step());
  const std::int64_t id = query->integer(0);
  auto put = run_for_each(database_, "INSERT OR REPLACE INTO clock_steps VALUES(?,?,?)",
                          present.clock_steps, [&](auto& columns, auto& step) {
                            columns(id);
                            kClockStep(columns, step);
                          });
  if (!put) return std::move(put).error();
  return id;
}

Result<std::vector<history::ClockStep>> HistoryTables::steps_of(std::int64_t run_id) {
  std::vector<history::ClockStep> steps;
  auto read =
      read_into(steps, database_, "SELECT at_ms, by_ms FROM clock_steps WHERE run=? ORDER BY at_ms",
                kClockStep, run_id);
  if (!read) return std::move(read).error();
  return steps;
}

Result<std::vector<StoredRun>> HistoryTables::runs() {
  std::vector<StoredRun> runs;
  auto read = each_row(database_,
                       "SELECT id, boot, wall_offset_ms, first_ms, last_ms FROM runs ORDER BY id",
                       [&](const Statement& row) {
                         StoredRun& one = runs.emplace_back();
                         RowReader{row}(one.id, one.run.boot_id, one.run.wall_offset_ms,
                                        one.run.first_ms, one.run.last_ms);
                       });
  if (!read) return std::move(read).error();
  for (StoredRun& one : runs) {
    one.run.clock_steps = GPUYARD_TRY(steps_of(one.id));
  }
  return runs;
}

Result<std::optional<std::int64_t>> HistoryTables::series_id(const history::SeriesKey& key) {
  auto query = GPUYARD_TRY(prepare(database_,
                                   "SELECT id FROM series WHERE uuid=? AND metric=? AND element=?",
                                   key.uuid, key.metric, key.element));
  const auto row = query.step();
  if (!row) return row.error();
  return *row ? std::optional(query.integer(0)) : std::nullopt;
}

Result<std::int64_t> HistoryTables::make_series(const history::SeriesKey& key) {
  const auto known = GPUYARD_TRY(series_id(key));
  if (known) return *known;
  GPUYARD_TRY(run(database_, "INSERT INTO series(uuid, metric, element) VALUES(?,?,?)", key.uuid,
                  key.metric, key.element));
  return database_.query_number("SELECT last_insert_rowid()");
}

Result<void> HistoryTables::put(std::int64_t run_id, const history::SeriesMinutes& minutes) {
  const auto series = GPUYARD_TRY(make_series(minutes.key));
  auto insert = GPUYARD_TRY(database_.prepare("INSERT OR REPLACE INTO minutes VALUES(?,?,?,?)"));
  for (auto from = minutes.buckets.begin(); from != minutes.buckets.end();) {
    const std::int64_t hour_ms = span_begin(from->at_ms, kHourMs);
    const auto until = std::find_if(from, minutes.buckets.end(), [&](const Bucket& bucket) {
      return bucket.at_ms >= hour_ms + kHourMs;
    });
    const std::string points = history::encode(std::span<const Bucket>(from, until));
    insert.bind(1, series).bind(2, run_id).bind(3, hour_ms).bind(4, as_blob(points));
    GPUYARD_TRY(insert.run());
    from = until;
  }
  return {};
}

Result<std::vector<Bucket>> HistoryTables::get(std::int64_t run_id, const history::SeriesKey& key,
                                               std::int64_t from_ms, std::int64_t until_ms) {
  std::vector<Bucket> out;
  const auto series = GPUYARD_TRY(series_id(key));
  if (!series) return out;
  auto query =
      prepare(database_,
              "SELECT points FROM minutes WHERE series=? AND run=? AND hour_ms>=? AND hour_ms<? "
              "ORDER BY hour_ms",
              *series, run_id, span_begin(from_ms, kHourMs), until_ms);
  if (!query) return std::move(query).error();
  for (;;) {
    const auto row = GPUYARD_TRY(query->step());
    if (!row) return out;
    const auto points = history::decode<Bucket>(as_text(query->blob(0)));
    const bool in_order = points && (out.empty() || out.back().at_ms < points->front().at_ms);
    if (!in_order) return Error{Errc::invalid, database_.path() + ": a block of points is damaged"};
    out.insert(out.end(), points->begin(), points->end());
  }
}

// A daemon that comes back finds processes that an earlier one saw first.
Result<void> HistoryTables::put(const std::vector<processes::ProcessSpan>& spans) {
  return run_for_each(
      database_,
      "INSERT INTO stays VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?) "
      "ON CONFLICT(gpu, pid, started_boot_ms, boot) DO UPDATE SET "
      "user=excluded.user, command=excluded.command, "
      "lease=CASE WHEN lease='' THEN excluded.lease ELSE lease END, "
      "peak_bytes=coalesce(max(peak_bytes, excluded.peak_bytes), peak_bytes, excluded.peak_bytes), "
      "first_seen=min(first_seen, excluded.first_seen), "
      "last_seen=max(last_seen, excluded.last_seen), over=excluded.over",
      spans, kProcessSpan);
}

Result<std::vector<processes::ProcessSpan>> HistoryTables::get(
    const processes::ProcessSpanQuery& query) {
  return records_of(database_, "stays", query, kProcessSpan);
}

// A later form of a bottleneck span replaces it.
Result<void> HistoryTables::put(const std::vector<bottleneck::BottleneckSpan>& spans) {
  return run_for_each(database_, "INSERT OR REPLACE INTO spells VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                      spans, kBottleneckSpan);
}

Result<std::vector<bottleneck::BottleneckSpan>> HistoryTables::get(
    const bottleneck::BottleneckSpanQuery& query) {
  return records_of(database_, "spells", query, kBottleneckSpan);
}

Result<void> HistoryTables::prune(const std::string& table, WallTime before,
                                  std::int64_t max_rows) {
  auto gone = run(database_, "DELETE FROM " + table + " WHERE last_seen<?", before);
  if (!gone) return gone;
  return run(database_,
             "DELETE FROM " + table + " WHERE last_seen<(SELECT last_seen FROM " + table +
                 " ORDER BY last_seen DESC LIMIT 1 OFFSET ?)",
             max_rows);
}

Result<void> HistoryTables::prune_history(std::int64_t retention_ms) {
  const auto all = GPUYARD_TRY(runs());
  auto series = database_.prepare("SELECT id FROM series");
  auto remove = database_.prepare("DELETE FROM minutes WHERE series=? AND run=? AND hour_ms<?");
  if (!series || !remove) return std::move(!series ? series : remove).error();
  std::vector<std::int64_t> ids;
  auto read = each_row(*series, [&](const Statement& row) { ids.push_back(row.integer(0)); });
  if (!read) return read;
  for (const StoredRun& one : all | std::views::reverse) {
    const std::int64_t before_ms =
        retention_ms > 0 ? one.run.last_ms - retention_ms - kHourMs : INT64_MAX;
    retention_ms -= one.run.last_ms - one.run.first_ms;
    if (span_begin(one.run.first_ms, kHourMs) >= before_ms) continue;
    // Deleted by series, because the table is sorted by it: no row that stays is read.
    for (const std::int64_t id : ids) {
      remove->bind(1, id).bind(2, one.id).bind(3, before_ms);
      GPUYARD_TRY(remove->run());
    }
    if (one.run.last_ms >= before_ms) continue;
    auto gone = run(database_, "DELETE FROM clock_steps WHERE run=?", one.id);
    if (gone) gone = run(database_, "DELETE FROM runs WHERE id=?", one.id);
    if (!gone) return gone;
  }
  return database_.execute(
      "DELETE FROM series WHERE NOT EXISTS(SELECT 1 FROM minutes WHERE series=series.id)");
}

}  // namespace gpuyard::store
