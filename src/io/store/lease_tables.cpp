#include "io/store/lease_tables.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "base/try.h"
#include "io/store/alert_db.h"
#include "io/store/machine_db.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/state_db.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

using lease::Cordon;
using lease::Lease;
using lease::LeaseTransaction;
using lease::ProcessKey;
using lease::SavedLeases;

constexpr std::string_view kLastTicket = "last_ticket";
constexpr std::string_view kLastFence = "last_fence";
constexpr std::string_view kEntries = "entries";

constexpr std::string_view kLeaseColumns =
    "id, uid, state, ending, why, ticket, fence, passed, overdue, gpus, processes, boot_id, "
    "asked_ns, granted_ns, until_ns, asked_ms, granted_ms, let_go_ms, ended_ms, wanted_gpus, "
    "wanted_free_bytes, wanted_model, wanted_among, longest_ns, patience_ns, binding, ttl_ns, "
    "note, pod";

using Pairs = std::vector<std::vector<std::int64_t>>;

Pairs pairs_of(const std::vector<ProcessKey>& processes) {
  Pairs pairs;
  for (const ProcessKey& process : processes) pairs.push_back({process.pid, ns(process.started)});
  return pairs;
}

bool are_processes(const Pairs& pairs, std::vector<ProcessKey>& processes) {
  for (const auto& pair : pairs) {
    if (pair.size() != 2 || !std::in_range<std::uint32_t>(pair[0])) return false;
    processes.push_back({static_cast<std::uint32_t>(pair[0]), point_of(pair[1])});
  }
  return true;
}

constexpr auto kLease = [](auto& row, auto& lease) {
  row(lease.id, lease.uid, lease.state, lease.end_reason, lease.detail, lease.ticket, lease.fence,
      lease.overtakes, lease.overdue, lease.gpus);
  row.as(lease.processes, &pairs_of, &are_processes);
  row(lease.boot_id, lease.requested_at, lease.granted_at, lease.expires_at, lease.requested_wall,
      lease.granted_wall, lease.drain_started_wall, lease.ended_wall);
  auto& spec = lease.spec;
  row(spec.gpus, spec.min_free_bytes, spec.model, spec.allowed_gpus, spec.max_hold_time,
      spec.wait_timeout, spec.binding, spec.ttl, spec.note);
  row(lease.pod);
};
constexpr auto kCordon = [](auto& row, auto& cordon) {
  row(cordon.gpu, cordon.by, cordon.reason, cordon.since);
};

Result<void> put_leases(Database& database, const std::deque<Lease>& leases) {
  static const std::string kPut =
      fmt::format("INSERT OR REPLACE INTO leases({}) VALUES(?{})", kLeaseColumns, [] {
        std::string more;
        for (const char c : kLeaseColumns) more += c == ',' ? ",?" : "";
        return more;
      }());
  return run_for_each(database, kPut, leases, kLease);
}

// Never lowers a counter: the numbers of the leases on the disk were given out.
Result<void> raise_counters(Database& database, lease::Ticket ticket, lease::Fence fence,
                            std::uint64_t entries) {
  return run(database,
             "INSERT INTO lease_counters VALUES(?,?),(?,?),(?,?) "
             "ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
             kLastTicket, ticket, kLastFence, fence, kEntries, entries);
}

Result<void> raise_counters(Database& database, const LeaseTransaction& transaction,
                            std::uint64_t number) {
  lease::Ticket ticket = transaction.last_ticket;
  lease::Fence fence = transaction.last_fence;
  for (const Lease& lease : transaction.leases) {
    ticket = std::max(ticket, lease.ticket);
    fence = std::max(fence, lease.fence);
  }
  return raise_counters(database, ticket, fence, number);
}

Result<void> put_cordons(Database& database, const LeaseTransaction& transaction) {
  auto removed = run_for_each(database, "DELETE FROM lease_cordons WHERE gpu=?",
                              transaction.uncordoned, kSingleColumn);
  if (!removed) return removed;
  return run_for_each(database, "INSERT OR REPLACE INTO lease_cordons VALUES(?,?,?,?)",
                      transaction.cordoned, kCordon);
}

// Reads the ticket and the fence of an unreadable lease, if possible.
Result<void> record_unreadable(Database& database, const std::string& id, StoredLeases& stored) {
  auto row = GPUYARD_TRY(prepare(database, "SELECT ticket, fence FROM leases WHERE id=?", id));
  return each_row(row, [&](const Statement& columns) {
    Lease lease;
    RowReader numbers(columns);
    numbers(lease.ticket, lease.fence);
    stored.record(lease.ticket, lease.fence);
  });
}

Result<void> read_leases(Database& database, StoredLeases& stored) {
  SavedLeases& saved = stored.saved;
  const RowSelection all{"leases",
                         "id",
                         kLeaseColumns,
                         "ORDER BY ticket, id",
                         "CASE WHEN state NOT IN ('waiting', 'ended') THEN gpus END",
                         "a lease"};
  auto bad = GPUYARD_TRY(read_valid_rows(saved.leases, database, all, kLease));
  for (const UnreadableRow& lease : bad) {
    GPUYARD_TRY(record_unreadable(database, lease.key, stored));
  }
  for (const Lease& lease : saved.leases) stored.record(lease.ticket, lease.fence);
  return set_aside_rows(database, all, bad);
}

struct Counter {
  std::string name;
  std::int64_t value = 0;
};

// If a counter is unreadable or behind the leases, the last fence issued is unknown. Fences then
// continue at the number of milliseconds since 1970, which grants cannot have reached.
Result<void> read_counters(Database& database, StoredLeases& stored) {
  SavedLeases& saved = stored.saved;
  const RowSelection all{"lease_counters", "name", "name, value"};
  std::vector<Counter> counters;
  auto read = read_into(counters, database, "SELECT name, value FROM lease_counters",
                        [](auto& row, auto& one) { row(one.name, one.value); });
  if (!read) return read;
  std::vector<UnreadableRow> bad;
  for (const Counter& one : counters) {
    const auto value = static_cast<std::uint64_t>(one.value);
    if (one.value < 0) {
      bad.push_back({one.name, "a negative value"});
    } else if (one.name == kLastTicket) {
      saved.last_ticket = value;
    } else if (one.name == kLastFence) {
      saved.last_fence = value;
    } else if (one.name == kEntries) {
      stored.entries = value;
    } else {
      bad.push_back({one.name, "an unknown name"});
    }
  }
  const bool behind =
      stored.highest_ticket > saved.last_ticket || stored.highest_fence > saved.last_fence;
  if (bad.empty() && !behind) return {};
  saved.last_ticket = std::max(saved.last_ticket, stored.highest_ticket);
  saved.last_fence = std::max({saved.last_fence, stored.highest_fence, fence_of(wall_now())});
  stored.entries = std::max<std::uint64_t>(stored.entries, 1);
  database.add_remark(fmt::format("{}: the lease counters could not be read; fences continue at {}",
                                  database.path(), saved.last_fence));
  GPUYARD_TRY(set_aside_rows(database, all, bad));
  return raise_counters(database, saved.last_ticket, saved.last_fence, stored.entries);
}

// Whether a corrupt state.db was set aside here once.
bool has_corrupt_predecessor(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string beginning = fs::path(path).filename().string() + std::string(kCorruptSuffix);
  std::error_code failed;
  for (auto file = fs::directory_iterator(fs::path(path).parent_path(), failed);
       !failed && file != fs::directory_iterator(); file.increment(failed)) {
    if (file->path().filename().string().starts_with(beginning)) return true;
  }
  return false;
}

}  // namespace

lease::Fence fence_of(WallTime now) {
  return static_cast<lease::Fence>(now.time_since_epoch().count());
}

void StoredLeases::record(lease::Ticket ticket, lease::Fence fence) {
  const auto counted = [](std::uint64_t number) { return number <= INT64_MAX; };
  if (counted(ticket)) highest_ticket = std::max(highest_ticket, ticket);
  highest_fence = std::max(highest_fence, counted(fence) ? fence : fence_of(wall_now()));
}

Result<StoredLeases> load_leases(Database& database) {
  StoredLeases stored;
  // Unreadable alerts and boards cordon GPUs, too. Their own tables may be read only later.
  auto read = set_aside_bad_alerts(database);
  if (read) read = set_aside_bad_boards(database);
  if (read) read = read_leases(database, stored);
  if (read) {
    read = read_into(stored.saved.cordons, database,
                     "SELECT gpu, by, reason, since_ms FROM lease_cordons ORDER BY gpu", kCordon);
  }
  if (read) read = read_counters(database, stored);
  if (!read) return std::move(read).error();
  if (stored.entries == 0) stored.replaces_corrupt_file = has_corrupt_predecessor(database.path());
  return stored;
}

Result<std::uint64_t> count_entries(Database& database) {
  const auto entries =
      database.query_number("SELECT value FROM lease_counters WHERE name = 'entries'");
  if (!entries) return entries.error();
  return static_cast<std::uint64_t>(*entries);
}

Result<void> save_leases(Database& database, const LeaseTransaction& transaction,
                         std::uint64_t number) {
  // First, because another lease of the same transaction may have a removed lease's id.
  auto removed =
      run_for_each(database, "DELETE FROM leases WHERE id=?", transaction.removed, kSingleColumn);
  if (!removed) return removed;
  GPUYARD_TRY(put_leases(database, transaction.leases));
  GPUYARD_TRY(raise_counters(database, transaction, number));
  return put_cordons(database, transaction);
}

Result<void> delete_leases(Database& database) {
  return database.execute("DELETE FROM leases; DELETE FROM lease_cordons");
}

}  // namespace gpuyard::store
