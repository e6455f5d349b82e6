#include "io/store/history_db.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/log.h"
#include "core/history/rings.h"

namespace gpuyard::store {
namespace {

using history::DaemonRun;
using history::Past;

constexpr std::int64_t kDayMs = 24 * history::kHourMs;

bool same_run(const DaemonRun& a, const DaemonRun& b) {
  return a.boot_id == b.boot_id && a.first_ms == b.first_ms;
}

}  // namespace

Result<void> HistoryDb::open() {
  if (tables_) return {};
  auto database = Database::open(path_, Durability::normal);
  if (!database) return std::move(database).error();
  const auto layout = database->layout();
  if (!layout) return layout.error();
  if (*layout != 0 && *layout != HistoryTables::kLayout) {
    return Error{Errc::invalid,
                 fmt::format("{} has layout {}, which this version of gpuyard does not support",
                             path_, *layout)};
  }
  auto tables = HistoryTables::in(*std::move(database));
  if (!tables) return std::move(tables).error();
  tables_.emplace(*std::move(tables));
  return {};
}

template <class Work>
Result<void> HistoryDb::in_transaction(const Work& work) {
  if (auto opened = open(); !opened) return opened;
  return tables_->database().transaction(work);
}

template <class Work>
Result<void> HistoryDb::keep(const Work& work) {
  Result<void> done = in_transaction(work);
  if (!done && done.error().code == Errc::invalid) {
    move_aside(done.error().text());
    done = in_transaction(work);
  }
  if (!done) {
    failed(done.error());
  } else if (!trouble_.empty()) {
    log::info("history: writing to {} again", path_);
    trouble_.clear();
  }
  return done;
}

Result<void> HistoryDb::put(const DaemonRun& present,
                            const std::vector<history::Minutes>& minutes) {
  auto done = keep([&] { return write(present, minutes); });
  const std::int64_t now_ms = present.last_ms;
  const bool lately = forgot_ms_ != INT64_MIN && std::abs(now_ms - forgot_ms_) < history::kHourMs;
  if (!done || lately) return done;
  forgot_ms_ = now_ms;
  return keep([&] { return forget(); });
}

Result<void> HistoryDb::write(const DaemonRun& present,
                              const std::vector<history::Minutes>& minutes) {
  const auto run = tables_->present(present);
  if (!run) return run.error();
  for (const history::Minutes& some : minutes) {
    if (auto put = tables_->put(*run, some); !put) return put;
  }
  return {};
}

template <class Record>
Result<void> HistoryDb::put_records(const std::vector<Record>& records, Kept& kept) {
  if (records.empty()) return {};
  return keep([&]() -> Result<void> {
    if (auto put = tables_->put(records); !put) return put;
    const WallTime now = records.back().last_seen;
    const auto hour = std::chrono::milliseconds(history::kHourMs);
    if (kept.forgot && now - *kept.forgot < hour) return {};
    kept.forgot = now;
    return tables_->forget(kept.table, now - std::chrono::milliseconds(history::kMinutesKeptMs),
                           kept.most);
  });
}

template <class Record>
Result<std::vector<Record>> HistoryDb::get_records(const RecordQuery<Record>& question) {
  if (auto opened = open(); !opened) {
    failed(opened.error());
    return std::move(opened).error();
  }
  auto records = tables_->get(question);
  if (!records) failed(records.error());
  return records;
}

Result<void> HistoryDb::put(const std::vector<processes::Stay>& stays) {
  return put_records(stays, stays_);
}
Result<std::vector<processes::Stay>> HistoryDb::get(const processes::ProcessSpanQuery& question) {
  return get_records(question);
}
Result<void> HistoryDb::put(const std::vector<bottleneck::Spell>& spells) {
  return put_records(spells, spells_);
}
Result<std::vector<bottleneck::Spell>> HistoryDb::get(
    const bottleneck::BottleneckSpanQuery& question) {
  return get_records(question);
}

Result<void> HistoryDb::forget() {
  for (std::int64_t kept_ms = history::kMinutesKeptMs; kept_ms > 0; kept_ms -= kDayMs) {
    if (auto gone = tables_->forget_beyond(kept_ms); !gone) return gone;
    const auto bytes = tables_->database().bytes_used();
    if (!bytes) return bytes.error();
    if (*bytes <= max_bytes_) break;
  }
  return {};
}

Result<std::vector<Past>> HistoryDb::get(const DaemonRun& present, const history::SeriesKey& key,
                                         std::int64_t from_wall_ms, std::int64_t until_wall_ms) {
  auto found = read(present, key, from_wall_ms, until_wall_ms);
  if (!found && found.error().code == Errc::invalid) {
    move_aside(found.error().text());
    return std::vector<Past>{};
  }
  if (!found) failed(found.error());
  return found;
}

Result<std::vector<Past>> HistoryDb::read(const DaemonRun& present, const history::SeriesKey& key,
                                          std::int64_t from_wall_ms, std::int64_t until_wall_ms) {
  if (auto opened = open(); !opened) return std::move(opened).error();
  auto stored = tables_->runs();
  if (!stored) return std::move(stored).error();
  std::vector<DaemonRun> runs;
  for (const StoredRun& one : *stored) {
    runs.push_back(same_run(one.run, present) ? present : one.run);
  }
  const bool known = !runs.empty() && same_run(runs.back(), present);
  if (!known) runs.push_back(present);  // the newest, by which the others are settled
  history::settle(runs);
  std::vector<Past> out;
  for (std::size_t i = 0; i < stored->size(); ++i) {
    const std::int64_t from_ms = from_wall_ms - runs[i].wall_offset_ms - history::kMinuteMs;
    const std::int64_t until_ms = until_wall_ms - runs[i].wall_offset_ms;
    if (runs[i].first_ms >= until_ms || runs[i].last_ms < from_ms) continue;
    auto buckets = tables_->get((*stored)[i].id, key, from_ms, until_ms);
    if (!buckets) return std::move(buckets).error();
    out.push_back({runs[i], same_run(runs[i], present), *std::move(buckets)});
  }
  return out;
}

std::vector<std::string> HistoryDb::notes() const {
  std::vector<std::string> notes;
  if (!moved_.empty()) notes.push_back(moved_);
  if (!trouble_.empty()) notes.push_back("not writing to disk: " + trouble_);
  return notes;
}

void HistoryDb::failed(const Error& error) {
  if (tables_) tables_->database().distrust();
  tables_.reset();
  forgot_ms_ = INT64_MIN;
  if (trouble_.empty()) {
    log::warning("history: {}; continuing in memory and retrying the disk", error.text());
  }
  trouble_ = error.text();
}

void HistoryDb::move_aside(const std::string& why) {
  tables_.reset();
  forgot_ms_ = INT64_MIN;
  const std::string aside = path_ + ".aside";
  std::error_code ignored;
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(path_ + suffix, ignored);
  if (std::rename(path_.c_str(), aside.c_str()) != 0) {
    return failed(system_error("moving " + path_ + " aside"));
  }
  moved_ = fmt::format(
      "the history on disk was replaced with a new one: {}; the old file was moved to {}", why,
      aside);
  log::warning("history: {}", moved_);
}

}  // namespace gpuyard::store
