// The tables of history.db, and nothing about what is done when one of them fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/bottleneck/bottleneck_spans.h"
#include "core/history/history.h"
#include "core/processes/process_spans.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {

struct StoredRun {
  std::int64_t id = 0;
  history::DaemonRun run;
};

class HistoryTables {
 public:
  static constexpr std::int64_t kSchemaVersion = 1;

  // Creates the tables in a new database. The database is ours from here on.
  static Result<HistoryTables> create(Database);

  Database& database() { return database_; }

  // The row of this run, made at the first call: a run is identified by its boot and its beginning.
  Result<std::int64_t> ensure_run(const history::DaemonRun&);
  // From the oldest to the newest, as they were stored.
  Result<std::vector<StoredRun>> runs();

  Result<void> put(std::int64_t run, const history::SeriesMinutes&);
  // The buckets of whole hours that touch [from, until) of the boot clock.
  Result<std::vector<history::Bucket>> get(std::int64_t run, const history::SeriesKey&,
                                           std::int64_t from_ms, std::int64_t until_ms);

  Result<void> put(const std::vector<processes::ProcessSpan>&);
  Result<std::vector<processes::ProcessSpan>> get(const processes::ProcessSpanQuery&);
  Result<void> put(const std::vector<bottleneck::BottleneckSpan>&);
  Result<std::vector<bottleneck::BottleneckSpan>> get(const bottleneck::BottleneckSpanQuery&);
  // Prunes the process or bottleneck spans that ended before, and the oldest beyond `max_rows`.
  Result<void> prune(const std::string& table, WallTime before, std::int64_t max_rows);

  // Prunes the hours before the newest `retention_ms` of the time that runs recorded, runs of which
  // nothing is left, and series that no run has any more. The wall clock plays no part.
  Result<void> prune_history(std::int64_t retention_ms);

 private:
  explicit HistoryTables(Database database) : database_(std::move(database)) {}

  // Nothing if it is not there.
  Result<std::optional<std::int64_t>> series_id(const history::SeriesKey&);
  Result<std::int64_t> make_series(const history::SeriesKey&);
  Result<std::vector<history::ClockStep>> steps_of(std::int64_t run);
  Database database_;
};

}  // namespace gpuyard::store
