#include "io/store/usage_db.h"

#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"

namespace gpuyard::store {
namespace {

using usage::Day;
using usage::UsageGrouping;
using usage::UsageQuery;
using usage::UsageReport;
using usage::UsageRow;
using usage::UsageTotal;

std::int64_t number_of(Day day) {
  return day.time_since_epoch().count();
}

std::string name_of(Day day) {
  return to_rfc3339(WallTime(day)).substr(0, std::string_view("2026-01-31").size());
}

Day day_of(std::int64_t number) {
  return Day(std::chrono::days(number));
}

constexpr auto kUsageRow = [](auto& row, auto& use) {
  row.as(use.day, &number_of, [](std::int64_t number, Day& day) {
    day = day_of(number);
    return true;
  });
  auto& tally = use.counters;
  row(use.lease, use.gpu, use.simulated, use.fence, use.uid, tally.held, tally.counted,
      tally.energy_mj, tally.estimated_mj, tally.watched, tally.busy_ns, tally.peak_bytes, use.pod);
};

struct Grouping {
  const char* key;
  const char* uid;
  const char* order = "";  // beside the time
  const char* by = "1";    // the columns that tell groups apart
};

// "4711" of the lease "slurm-4711-019a1b2c3d4"; "" of others. Nobody can choose such an id.
constexpr const char* kSlurmJob =
    "CASE WHEN lease GLOB 'slurm-*' THEN "
    "substr(lease, 7, instr(substr(lease, 7), '-') - 1) ELSE '' END";

// "default" of "default/trainer-0".
constexpr const char* kPodNamespace =
    "CASE WHEN pod <> '' THEN substr(pod, 1, instr(pod, '/') - 1) ELSE '' END";

// Slurm reuses its numbers, so that jobs of several users may have the same one.
Grouping grouping_of(UsageGrouping grouping) {
  switch (grouping) {
    case UsageGrouping::day:
      return {"day", "NULL", "day,"};
    case UsageGrouping::gpu:
      return {"gpu", "NULL"};
    case UsageGrouping::lease:
      return {"lease", "uid"};
    case UsageGrouping::user:
      break;
    case UsageGrouping::slurm_job:
      return {kSlurmJob, "CASE WHEN lease GLOB 'slurm-*' THEN uid END", "", "1, 2"};
    case UsageGrouping::pod:
      return {"pod", "NULL"};
    case UsageGrouping::pod_namespace:
      return {kPodNamespace, "NULL"};
  }
  return {"uid", "uid"};
}

// The sums of nanoseconds are floating: those of 256 GPUs over years do not fit into an integer.
constexpr const char* kUsageSums =
    "TOTAL(held_ns) AS held, TOTAL(counted_ns), TOTAL(energy_mj), TOTAL(estimated_mj), "
    "TOTAL(watched_ns), TOTAL(busy_ns), MAX(peak_bytes), "
    "COUNT(DISTINCT CASE WHEN lease NOT GLOB 'folded:*' THEN lease || '/' || fence END) + "
    "COALESCE(SUM(CASE WHEN lease GLOB 'folded:*' THEN leases END), 0) FROM lease_use "
    "WHERE day>=? AND simulated=? AND ";

// A row for several leases grows by what is added to it.
constexpr const char* kAddUsage =
    " ON CONFLICT(day, lease, gpu, simulated, fence) DO UPDATE SET "
    "held_ns=held_ns+excluded.held_ns, "
    "counted_ns=counted_ns+excluded.counted_ns, energy_mj=energy_mj+excluded.energy_mj, "
    "estimated_mj=estimated_mj+excluded.estimated_mj, watched_ns=watched_ns+excluded.watched_ns, "
    "busy_ns=busy_ns+excluded.busy_ns, leases=leases+excluded.leases, "
    "peak_bytes=MAX(COALESCE(peak_bytes, excluded.peak_bytes), "
    "COALESCE(excluded.peak_bytes, peak_bytes))";

// The condition for rows that may share one. ?1: the leases that grow, as JSON.
constexpr const char* kCompactableRows =
    "lease NOT GLOB 'folded:*' AND lease<>'' AND lease NOT IN (SELECT value FROM json_each(?1))";

// The most compactions of one save while the file is too large.
constexpr int kMaxCompactionsPerSave = 8;
// The saves that pass without a try after there was nothing to compact: a try at once would only
// cost time.
constexpr int kCompactionRetrySaves = 100;

UsageTotal sum_of(const Statement& row, UsageGrouping grouping) {
  constexpr double kNanoseconds = 1e9;
  UsageTotal sum;
  sum.key =
      grouping == UsageGrouping::day ? name_of(day_of(row.integer(0))) : std::string(row.text(0));
  if (!row.is_null(1)) sum.uid = static_cast<std::uint32_t>(row.integer(1));
  sum.held_s = row.real(2) / kNanoseconds;
  sum.counted_s = row.real(3) / kNanoseconds;
  sum.energy_mj = row.integer(4);
  sum.estimated_mj = row.integer(5);
  if (const double watched = row.real(6); watched > 0) {
    sum.mean_utilization_percent = row.real(7) / watched;
  }
  if (!row.is_null(8)) sum.peak_bytes = row.integer(8);
  sum.leases = row.integer(9);
  return sum;
}

Result<UsageReport> sum_rows(Database& database, const UsageQuery& query) {
  const auto [key, uid, order, group_by] = grouping_of(query.grouping);
  const std::int64_t since = number_of(query.since);
  UsageReport report;
  auto leased =
      prepare(database,
              fmt::format("SELECT {}, {}, {} lease<>'' GROUP BY {} ORDER BY {} held DESC, 1, 2",
                          key, uid, kUsageSums, group_by, order),
              since, query.simulated);
  if (!leased) return std::move(leased).error();
  auto read = each_row(*leased, [&](const Statement& row) {
    if (report.totals.size() == UsageReport::kMaxTotals) {
      ++report.left_out;
    } else {
      report.totals.push_back(sum_of(row, query.grouping));
    }
  });
  if (!read) return std::move(read).error();
  auto unleased = prepare(database, fmt::format("SELECT '', NULL, {} lease=''", kUsageSums), since,
                          query.simulated);
  if (!unleased) return std::move(unleased).error();
  read = each_row(*unleased, [&](const Statement& row) {
    report.unleased = sum_of(row, UsageGrouping::lease);
    report.unleased.leases = 0;
  });
  if (!read) return std::move(read).error();
  return report;
}

// Compacts until the file is small enough, or nothing more can be compacted; at most
// kMaxCompactionsPerSave times.
Result<void> compact_to_size(Database& database, std::int64_t max_bytes,
                             const std::set<std::string>& growing, std::atomic<bool>& needed,
                             std::atomic<int>& saves_to_skip) {
  if (saves_to_skip > 0) --saves_to_skip;
  for (int i = 0; i < kMaxCompactionsPerSave && saves_to_skip == 0; ++i) {
    const auto bytes = GPUYARD_TRY(database.bytes_used());
    if (bytes <= max_bytes) break;
    const auto compacted = GPUYARD_TRY(compact_oldest_usage(database, growing));
    if (compacted) {
      needed = true;
    } else {
      saves_to_skip = kCompactionRetrySaves;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<UsageRow>> load_usage(Database& database, Day since,
                                         const std::set<std::string>& leases) {
  auto select =
      prepare(database,
              "SELECT day, lease, gpu, simulated, fence, uid, held_ns, counted_ns, energy_mj, "
              "estimated_mj, watched_ns, busy_ns, peak_bytes, pod FROM lease_use WHERE day>=?",
              number_of(since));
  if (!select) return std::move(select).error();
  std::vector<UsageRow> rows;
  auto read = each_row(*select, [&](const Statement& row) {
    const std::string_view lease = row.text(1);
    if (lease.empty() || leases.contains(std::string(lease)))
      rows.push_back(record_of<UsageRow>(row, kUsageRow));
  });
  if (!read) return std::move(read).error();
  return rows;
}

Result<void> save_usage(Database& database, const std::vector<UsageRow>& rows) {
  return run_for_each(database,
                      "INSERT OR REPLACE INTO lease_use VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,1,?)",
                      rows, kUsageRow);
}

Result<void> compact_usage(Database& database, const std::vector<UsageRow>& rows) {
  constexpr std::string_view kRow = "day=?1 AND lease=?2 AND gpu=?3 AND simulated=?4 AND fence=?5";
  auto add = database.prepare(fmt::format(
      "INSERT INTO lease_use SELECT day, 'folded:' || uid, gpu, simulated, 0, uid, held_ns, "
      "counted_ns, energy_mj, estimated_mj, watched_ns, busy_ns, peak_bytes, ?6, '' FROM lease_use "
      "WHERE {}{}",
      kRow, kAddUsage));
  auto drop = database.prepare(fmt::format("DELETE FROM lease_use WHERE {}", kRow));
  for (auto* each : {&add, &drop}) {
    if (!*each) return std::move(*each).error();
  }
  for (const UsageRow& row : rows) {
    for (auto* each : {&*add, &*drop}) {
      each->bind(1, number_of(row.day)).bind(2, row.lease).bind(3, row.gpu);
      each->bind(4, std::int64_t{row.simulated}).bind(5, static_cast<std::int64_t>(row.fence));
    }
    add->bind(6, row.compacted_leases.value_or(0));
    GPUYARD_TRY(add->run());
    GPUYARD_TRY(drop->run());
  }
  return {};
}

Result<void> prune_usage(Database& database, std::int64_t days) {
  constexpr std::int64_t kMaxDaysAtOnce = 4;  // so that no mistake deletes much
  return run(
      database,
      "DELETE FROM lease_use WHERE day < (WITH RECURSIVE newest(day, place) AS ("
      "SELECT MAX(day), 1 FROM lease_use UNION ALL SELECT (SELECT MAX(day) FROM lease_use WHERE "
      "day < newest.day), place + 1 FROM newest WHERE day IS NOT NULL AND place < ?1) "
      "SELECT day FROM newest WHERE place = ?1) AND day IN (SELECT DISTINCT day FROM lease_use "
      "ORDER BY day LIMIT ?2)",
      days, kMaxDaysAtOnce);
}

Result<bool> compact_oldest_usage(Database& database, const std::set<std::string>& growing) {
  const std::string grow = json::to_json(std::vector(growing.begin(), growing.end()));
  auto largest = prepare(database,
                         fmt::format("SELECT uid, MIN(day) FROM lease_use WHERE {} GROUP BY uid "
                                     "ORDER BY COUNT(*) DESC LIMIT 1",
                                     kCompactableRows),
                         grow);
  if (!largest) return std::move(largest).error();
  const auto found = GPUYARD_TRY(largest->step());
  if (!found) return false;
  const std::int64_t uid = largest->integer(0);
  const std::int64_t day = largest->integer(1);
  // A lease is counted on its last day, at the last of its GPUs.
  const std::string merge = fmt::format(
      "INSERT INTO lease_use SELECT day, 'folded:' || uid, gpu, simulated, 0, uid, SUM(held_ns), "
      "SUM(counted_ns), SUM(energy_mj), SUM(estimated_mj), SUM(watched_ns), SUM(busy_ns), "
      "MAX(peak_bytes), COUNT(*) FILTER (WHERE NOT EXISTS (SELECT 1 FROM lease_use AS other WHERE "
      "other.lease = lease_use.lease AND other.fence = lease_use.fence AND other.simulated = "
      "lease_use.simulated AND "
      "(other.day, other.gpu) > (lease_use.day, lease_use.gpu))), '' FROM lease_use "
      "WHERE uid = ?2 AND day = ?3 AND {} GROUP BY gpu, simulated{}",
      kCompactableRows, kAddUsage);
  const std::string drop =
      fmt::format("DELETE FROM lease_use WHERE uid = ?2 AND day = ?3 AND {}", kCompactableRows);
  for (const std::string& each : {merge, drop}) {
    GPUYARD_TRY(run(database, each, grow, uid, day));
  }
  return true;
}

Result<UsageReport> sum_usage(Database& database, const UsageQuery& query,
                              const std::vector<UsageRow>& unsaved) {
  if (unsaved.empty()) return sum_rows(database, query);
  GPUYARD_TRY(database.execute("SAVEPOINT use"));
  const auto put = save_usage(database, unsaved);
  auto report = put ? sum_rows(database, query) : Result<UsageReport>(put.error());
  if (auto undone = database.execute("ROLLBACK TO use; RELEASE use"); !undone) {
    return std::move(undone).error();
  }
  return report;
}

bool UsageDb::load(Day since, std::set<std::string> leases,
                   std::function<void(Result<std::vector<UsageRow>>)> on_done) {
  return store_.load<std::vector<UsageRow>>(
      [since, leases = std::move(leases)](Database& database) {
        return load_usage(database, since, leases);
      },
      std::move(on_done));
}

bool UsageDb::save(usage::UsageTransaction transaction,
                   std::function<void(const Result<void>&)> on_done) {
  return store_.run(
      Requester::daemon(),
      [transaction = std::make_shared<const usage::UsageTransaction>(std::move(transaction)),
       max_bytes = max_bytes_, compaction = compaction_](Database& database) -> Result<void> {
        GPUYARD_TRY(prune_usage(database, kRowRetention.count()));
        GPUYARD_TRY(compact_usage(database, transaction->rows_to_compact));
        auto done = compact_to_size(database, max_bytes, transaction->growing_leases,
                                    compaction->needed, compaction->saves_to_skip);
        return done ? save_usage(database, transaction->rows) : done;
      },
      std::move(on_done));
}

std::vector<std::string> UsageDb::notes() const {
  auto notes = store_.notes();
  if (compaction_->needed) {
    notes.push_back(
        fmt::format("usage.db has reached {} MiB: ended leases of the users with the most leases "
                    "are merged into one row per day and GPU, oldest first",
                    max_bytes_ >> 20));
  }
  return notes;
}

bool UsageDb::query(UsageQuery query, std::vector<UsageRow> unsaved,
                    std::function<void(Result<UsageReport>)> on_done) {
  return store_.load<UsageReport>(
      [query, unsaved = std::make_shared<const std::vector<UsageRow>>(std::move(unsaved))](
          Database& database) { return sum_usage(database, query, *unsaved); },
      std::move(on_done));
}

}  // namespace gpuyard::store
