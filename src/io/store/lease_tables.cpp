#include "store/lease_tables.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "store/sqlite.h"
#include "store/state_db.h"

namespace gpuyard::store {
namespace {

using lease::Cordon;
using lease::Event;
using lease::Kept;
using lease::Lease;
using lease::LeaseArchive;
using lease::LeaseEntry;
using lease::Process;

constexpr std::string_view kLastTicket = "last_ticket";
constexpr std::string_view kLastFence = "last_fence";
constexpr std::string_view kEntries = "entries";

constexpr std::string_view kLeaseColumns =
    "id, uid, state, ending, why, ticket, fence, passed, overdue, gpus, processes, boot_id, "
    "asked_ns, granted_ns, until_ns, asked_ms, granted_ms, let_go_ms, ended_ms, wanted_gpus, "
    "wanted_free_bytes, wanted_model, wanted_among, longest_ns, patience_ns, binding, ttl_ns, note";

using Pairs = std::vector<std::vector<std::int64_t>>;

Pairs pairs_of(const std::vector<Process>& processes) {
  Pairs pairs;
  for (const Process& process : processes) pairs.push_back({process.pid, ns(process.started)});
  return pairs;
}

bool are_processes(const Pairs& pairs, std::vector<Process>& processes) {
  for (const auto& pair : pairs) {
    if (pair.size() != 2 || !std::in_range<std::uint32_t>(pair[0])) return false;
    processes.push_back({static_cast<std::uint32_t>(pair[0]), point_of(pair[1])});
  }
  return true;
}

constexpr auto kLease = [](auto& row, auto& lease) {
  row(lease.id, lease.uid, lease.state, lease.ending, lease.why, lease.ticket, lease.fence,
      lease.passed, lease.overdue, lease.gpus);
  row.as(lease.processes, &pairs_of, &are_processes);
  row(lease.boot_id, lease.asked, lease.granted, lease.until, lease.asked_wall, lease.granted_wall,
      lease.let_go_wall, lease.ended_wall);
  auto& wish = lease.wish;
  row(wish.gpus, wish.min_free_bytes, wish.model, wish.among, wish.longest, wish.patience,
      wish.binding, wish.ttl, wish.note);
};
constexpr auto kEvent = [](auto& row, auto& event) {
  row(event.lease, event.at, event.what, event.by, event.gpu);
};
constexpr auto kCordon = [](auto& row, auto& cordon) {
  row(cordon.gpu, cordon.by, cordon.reason, cordon.since);
};

Result<void> add_events(Database& database, const std::vector<Event>& events) {
  if (events.empty()) return {};
  auto added =
      run_for_each(database, "INSERT INTO lease_events VALUES(NULL,?,?,?,?,?)", events, kEvent);
  if (!added) return added;
  return run(database,
             "DELETE FROM lease_events WHERE number <= (SELECT max(number) FROM lease_events) - ?",
             LeaseArchive::kEventsKept);
}

Result<void> put_leases(Database& database, const std::vector<Lease>& leases) {
  static const std::string kPut =
      fmt::format("INSERT OR REPLACE INTO leases({}) VALUES(?{})", kLeaseColumns, [] {
        std::string more;
        for (const char c : kLeaseColumns) more += c == ',' ? ",?" : "";
        return more;
      }());
  return run_for_each(database, kPut, leases, kLease);
}

// Never lowers a counter: the numbers of the leases on the disk were given out.
Result<void> raise_counter(Database& database, std::string_view name, std::uint64_t value) {
  if (value == 0) return {};
  return run(database,
             "INSERT INTO lease_counters VALUES(?,?) "
             "ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
             name, value);
}

Result<void> raise_counters(Database& database, const LeaseEntry& entry) {
  lease::Ticket ticket = entry.last_ticket;
  lease::Fence fence = entry.last_fence;
  for (const Lease& lease : entry.leases) {
    ticket = std::max(ticket, lease.ticket);
    fence = std::max(fence, lease.fence);
  }
  if (auto done = raise_counter(database, kLastTicket, ticket); !done) return done;
  return raise_counter(database, kLastFence, fence);
}

Result<void> put_cordons(Database& database, const LeaseEntry& entry) {
  auto removed =
      run_for_each(database, "DELETE FROM lease_cordons WHERE gpu=?", entry.uncordoned, kItself);
  if (!removed) return removed;
  return run_for_each(database, "INSERT OR REPLACE INTO lease_cordons VALUES(?,?,?,?)",
                      entry.cordoned, kCordon);
}

Result<std::vector<Lease>> read_leases(Database& database) {
  auto rows =
      database.prepare(fmt::format("SELECT {} FROM leases ORDER BY ticket, id", kLeaseColumns));
  if (!rows) return std::move(rows).error();
  std::vector<Lease> leases;
  Result<void> sound;
  auto read = each_row(*rows, [&](const Statement& row) {
    RowReader reader(row);
    Lease& lease = leases.emplace_back();
    kLease(reader, lease);
    if (!sound || reader.fault().empty()) return;
    sound = Error{Errc::conflict, fmt::format("the lease {}: {}", lease.id, reader.fault())};
  });
  if (!read) return std::move(read).error();
  if (!sound) return std::move(sound).error();
  return leases;
}

Result<void> read_counters(Database& database, LeaseBook& book) {
  Kept& kept = book.kept;
  std::string unknown;
  auto read =
      each_row(database, "SELECT name, value FROM lease_counters", [&](const Statement& row) {
        const auto value = static_cast<std::uint64_t>(row.integer(1));
        if (row.text(0) == kLastTicket) {
          kept.last_ticket = value;
        } else if (row.text(0) == kLastFence) {
          kept.last_fence = value;
        } else if (row.text(0) == kEntries) {
          book.entries = value;
        } else {
          unknown = row.text(0);
        }
      });
  if (!read) return read;
  for (const Lease& lease : kept.leases) {
    if (lease.ticket > kept.last_ticket || lease.fence > kept.last_fence) {
      return Error{Errc::conflict,
                   fmt::format("the lease {} is later than the last one", lease.id)};
    }
  }
  if (unknown.empty()) return {};
  return Error{Errc::conflict, fmt::format("the counter '{}' is not known here", unknown)};
}

// Whether a corrupt state.db was put aside here once.
bool corrupt_beside(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string beginning = fs::path(path).filename().string() + std::string(kPutAside);
  std::error_code failed;
  for (auto file = fs::directory_iterator(fs::path(path).parent_path(), failed);
       !failed && file != fs::directory_iterator(); file.increment(failed)) {
    if (file->path().filename().string().starts_with(beginning)) return true;
  }
  return false;
}

Result<LeaseBook> read_book(Database& database) {
  LeaseBook book;
  auto leases = read_leases(database);
  if (!leases) return std::move(leases).error();
  book.kept.leases = *std::move(leases);
  auto read =
      read_into(book.kept.cordons, database,
                "SELECT gpu, by, reason, since_ms FROM lease_cordons ORDER BY gpu", kCordon);
  if (read) read = read_counters(database, book);
  if (!read) return std::move(read).error();
  if (book.entries == 0) book.successor = corrupt_beside(database.path());
  return book;
}

}  // namespace

Result<LeaseBook> load_leases(Database& database) {
  auto book = read_book(database);
  if (book || book.error().code != Errc::conflict) return book;
  return Error{Errc::conflict,
               fmt::format("the leases kept in {} are not of this version of gpuyard ({}). Start "
                           "the one that wrote them; or, if nothing runs on the GPUs, move the "
                           "file away",
                           database.path(), book.error().message)};
}

Result<std::uint64_t> count_entries(Database& database) {
  const auto entries = database.number("SELECT value FROM lease_counters WHERE name = 'entries'");
  if (!entries) return entries.error();
  return static_cast<std::uint64_t>(*entries);
}

Result<void> save_leases(Database& database, const LeaseEntry& entry, std::uint64_t number) {
  if (auto done = add_events(database, entry.events); !done) return done;
  // First, because another lease of the same entry may have a forgotten id.
  auto forgotten =
      run_for_each(database, "DELETE FROM leases WHERE id=?", entry.forgotten, kItself);
  if (!forgotten) return forgotten;
  if (auto done = put_leases(database, entry.leases); !done) return done;
  if (auto done = raise_counters(database, entry); !done) return done;
  if (auto done = raise_counter(database, kEntries, number); !done) return done;
  return put_cordons(database, entry);
}

Result<void> forget_leases(Database& database) {
  return database.execute("DELETE FROM leases; DELETE FROM lease_cordons");
}

Result<std::vector<Event>> load_lease_events(Database& database, const std::string& lease,
                                             std::int64_t most) {
  std::vector<Event> events;
  auto read =
      read_into(events, database,
                "SELECT lease, at_ms, what, by, gpu FROM lease_events WHERE ?1 = '' OR lease = ?1 "
                "ORDER BY number DESC LIMIT ?2",
                kEvent, lease, most);
  if (!read) return std::move(read).error();
  std::ranges::reverse(events);
  return events;
}

}  // namespace gpuyard::store
