#include "io/store/history_db.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "base/try.h"
#include "core/history/rings.h"

namespace gpuyard::store {
namespace {

using history::DaemonRun;
using history::RunMinutes;

constexpr std::int64_t kDayMs = 24 * history::kHourMs;

bool is_same_run(const DaemonRun& a, const DaemonRun& b) {
  return a.boot_id == b.boot_id && a.first_ms == b.first_ms;
}

}  // namespace

Result<void> HistoryDb::open() {
  if (tables_) return {};
  auto database = GPUYARD_TRY(Database::open(path_, Durability::normal));
  const auto version = GPUYARD_TRY(database.schema_version());
  if (version != 0 && version != HistoryTables::kSchemaVersion) {
    return Error{Errc::invalid,
                 fmt::format("{} has layout {}, which this version of gpuyard does not support",
                             path_, version)};
  }
  auto tables = GPUYARD_TRY(HistoryTables::create(std::move(database)));
  tables_.emplace(std::move(tables));
  return {};
}

template <class Work>
Result<void> HistoryDb::in_transaction(const Work& work) {
  GPUYARD_TRY(open());
  return tables_->database().run_transaction(work);
}

template <class Work>
Result<void> HistoryDb::commit(const Work& work) {
  Result<void> done = in_transaction(work);
  if (!done && done.error().code == Errc::invalid) {
    move_aside(done.error().text());
    done = in_transaction(work);
  }
  if (!done) {
    on_failure(done.error());
  } else if (!store_error_.empty()) {
    log::info("history: writing to {} again", path_);
    store_error_.clear();
  }
  return done;
}

Result<void> HistoryDb::put(const DaemonRun& present,
                            const std::vector<history::SeriesMinutes>& minutes) {
  auto done = commit([&] { return write(present, minutes); });
  const std::int64_t now_ms = present.last_ms;
  const bool lately = pruned_ms_ != INT64_MIN && std::abs(now_ms - pruned_ms_) < history::kHourMs;
  if (!done || lately) return done;
  pruned_ms_ = now_ms;
  return commit([&] { return prune(); });
}

Result<void> HistoryDb::write(const DaemonRun& present,
                              const std::vector<history::SeriesMinutes>& minutes) {
  const auto run = GPUYARD_TRY(tables_->ensure_run(present));
  for (const history::SeriesMinutes& some : minutes) {
    GPUYARD_TRY(tables_->put(run, some));
  }
  return {};
}

template <class Record>
Result<void> HistoryDb::put_records(const std::vector<Record>& records, RecordTable& table) {
  if (records.empty()) return {};
  return commit([&]() -> Result<void> {
    GPUYARD_TRY(tables_->put(records));
    const WallTime now = records.back().last_seen;
    const auto hour = std::chrono::milliseconds(history::kHourMs);
    if (table.pruned_at && now - *table.pruned_at < hour) return {};
    table.pruned_at = now;
    return tables_->prune(table.table, now - std::chrono::milliseconds(history::kMinuteRetentionMs),
                          table.max_rows);
  });
}

template <class Record>
Result<std::vector<Record>> HistoryDb::get_records(const RecordQuery<Record>& query) {
  if (auto opened = open(); !opened) {
    on_failure(opened.error());
    return std::move(opened).error();
  }
  auto records = tables_->get(query);
  if (!records) on_failure(records.error());
  return records;
}

Result<void> HistoryDb::put(const std::vector<processes::ProcessSpan>& spans) {
  return put_records(spans, process_spans_);
}
Result<std::vector<processes::ProcessSpan>> HistoryDb::get(
    const processes::ProcessSpanQuery& query) {
  return get_records(query);
}
Result<void> HistoryDb::put(const std::vector<bottleneck::BottleneckSpan>& spans) {
  return put_records(spans, bottleneck_spans_);
}
Result<std::vector<bottleneck::BottleneckSpan>> HistoryDb::get(
    const bottleneck::BottleneckSpanQuery& query) {
  return get_records(query);
}

Result<void> HistoryDb::prune() {
  for (std::int64_t retention_ms = history::kMinuteRetentionMs; retention_ms > 0;
       retention_ms -= kDayMs) {
    GPUYARD_TRY(tables_->prune_history(retention_ms));
    const auto bytes = GPUYARD_TRY(tables_->database().bytes_used());
    if (bytes <= max_bytes_) break;
  }
  return {};
}

Result<std::vector<RunMinutes>> HistoryDb::get(const DaemonRun& present,
                                               const history::SeriesKey& key,
                                               std::int64_t from_wall_ms,
                                               std::int64_t until_wall_ms) {
  auto found = read(present, key, from_wall_ms, until_wall_ms);
  if (!found && found.error().code == Errc::invalid) {
    move_aside(found.error().text());
    return std::vector<RunMinutes>{};
  }
  if (!found) on_failure(found.error());
  return found;
}

Result<std::vector<RunMinutes>> HistoryDb::read(const DaemonRun& present,
                                                const history::SeriesKey& key,
                                                std::int64_t from_wall_ms,
                                                std::int64_t until_wall_ms) {
  GPUYARD_TRY(open());
  auto stored = GPUYARD_TRY(tables_->runs());
  std::vector<DaemonRun> runs;
  for (const StoredRun& one : stored) {
    runs.push_back(is_same_run(one.run, present) ? present : one.run);
  }
  const bool known = !runs.empty() && is_same_run(runs.back(), present);
  if (!known) runs.push_back(present);  // the newest, by which the others are settled
  history::align_runs(runs);
  std::vector<RunMinutes> out;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::int64_t from_ms = from_wall_ms - runs[i].wall_offset_ms - history::kMinuteMs;
    const std::int64_t until_ms = until_wall_ms - runs[i].wall_offset_ms;
    if (runs[i].first_ms >= until_ms || runs[i].last_ms < from_ms) continue;
    auto buckets = GPUYARD_TRY(tables_->get(stored[i].id, key, from_ms, until_ms));
    out.push_back({runs[i], is_same_run(runs[i], present), std::move(buckets)});
  }
  return out;
}

std::vector<std::string> HistoryDb::notes() const {
  std::vector<std::string> notes;
  if (!moved_note_.empty()) notes.push_back(moved_note_);
  if (!store_error_.empty()) notes.push_back("not writing to disk: " + store_error_);
  return notes;
}

void HistoryDb::on_failure(const Error& error) {
  if (tables_) tables_->database().keep_wal_on_close();
  tables_.reset();
  pruned_ms_ = INT64_MIN;
  if (store_error_.empty()) {
    log::warning("history: {}; continuing in memory and retrying the disk", error.text());
  }
  store_error_ = error.text();
}

void HistoryDb::move_aside(const std::string& why) {
  tables_.reset();
  pruned_ms_ = INT64_MIN;
  const std::string aside = path_ + ".aside";
  std::error_code ignored;
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path_ + suffix, ignored);
  if (std::rename(path_.c_str(), aside.c_str()) != 0) {
    return on_failure(system_error("moving " + path_ + " aside"));
  }
  moved_note_ = fmt::format(
      "the history on disk was replaced with a new one: {}; the old file was moved to {}", why,
      aside);
  log::warning("history: {}", moved_note_);
}

}  // namespace gpuyard::store
