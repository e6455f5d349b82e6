#include "store/lease_tables.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "store/rows.h"
#include "store/state_db.h"

namespace gpuyard::store {
namespace {

using lease::Archive;
using lease::Cordon;
using lease::Entry;
using lease::Event;
using lease::Kept;
using lease::Lease;

constexpr std::string_view kLastTicket = "last_ticket";
constexpr std::string_view kLastFence = "last_fence";
constexpr std::string_view kEntries = "entries";

Result<void> add_events(Database& database, const std::vector<Event>& events) {
  if (events.empty()) return {};
  auto add = database.prepare("INSERT INTO lease_events VALUES(NULL,?,?,?,?,?)");
  if (!add) return std::move(add).error();
  for (const Event& event : events) {
    add->bind(1, event.lease).bind(2, ms(event.at)).bind(3, event.what).bind(4, event.by);
    if (auto done = add->bind(5, event.gpu).run(); !done) return done;
  }
  auto prune = database.prepare(
      "DELETE FROM lease_events WHERE number <= (SELECT max(number) FROM lease_events) - ?");
  if (!prune) return std::move(prune).error();
  return prune->bind(1, Archive::kEventsKept).run();
}

Result<void> put_leases(Database& database, const std::vector<Lease>& leases) {
  if (leases.empty()) return {};
  static const std::string kPut = [] {
    std::string parameters = "?";
    for (int i = 1; i < kLeaseColumnCount; ++i) parameters += ",?";
    return fmt::format("INSERT OR REPLACE INTO leases({}) VALUES({})", kLeaseColumns, parameters);
  }();
  auto put = database.prepare(kPut);
  if (!put) return std::move(put).error();
  for (const Lease& lease : leases) {
    bind_lease(*put, lease);
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> forget(Database& database, const std::vector<std::string>& leases) {
  if (leases.empty()) return {};
  auto remove = database.prepare("DELETE FROM leases WHERE id=?");
  if (!remove) return std::move(remove).error();
  for (const std::string& id : leases) {
    if (auto done = remove->bind(1, id).run(); !done) return done;
  }
  return {};
}

// Never back: what a lease on the disk has was given out.
Result<void> raise_counter(Database& database, std::string_view name, std::uint64_t value) {
  if (value == 0) return {};
  auto raise = database.prepare(
      "INSERT INTO lease_counters VALUES(?,?) "
      "ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)");
  if (!raise) return std::move(raise).error();
  return raise->bind(1, name).bind(2, static_cast<std::int64_t>(value)).run();
}

Result<void> raise_counters(Database& database, const Entry& entry) {
  lease::Ticket ticket = entry.last_ticket;
  lease::Fence fence = entry.last_fence;
  for (const Lease& lease : entry.leases) {
    ticket = std::max(ticket, lease.ticket);
    fence = std::max(fence, lease.fence);
  }
  if (auto done = raise_counter(database, kLastTicket, ticket); !done) return done;
  return raise_counter(database, kLastFence, fence);
}

Result<void> put_cordons(Database& database, const Entry& entry) {
  auto remove = database.prepare("DELETE FROM lease_cordons WHERE gpu=?");
  if (!remove) return std::move(remove).error();
  for (const DeviceId& gpu : entry.uncordoned) {
    if (auto done = remove->bind(1, gpu).run(); !done) return done;
  }
  auto put = database.prepare("INSERT OR REPLACE INTO lease_cordons VALUES(?,?,?,?)");
  if (!put) return std::move(put).error();
  for (const Cordon& cordon : entry.cordoned) {
    put->bind(1, cordon.gpu).bind(2, cordon.by).bind(3, cordon.reason).bind(4, ms(cordon.since));
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<std::vector<Lease>> read_leases(Database& database) {
  auto rows =
      database.prepare(fmt::format("SELECT {} FROM leases ORDER BY ticket, id", kLeaseColumns));
  if (!rows) return std::move(rows).error();
  std::vector<Lease> leases;
  Result<void> sound;
  auto read = each_row(*rows, [&](const Statement& row) {
    auto lease = lease_of(row);
    if (lease) {
      leases.push_back(*std::move(lease));
    } else if (sound) {
      sound = std::move(lease).error();
    }
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

// A corrupt state.db was put aside here once.
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
      each_row(database, "SELECT gpu, by, reason, since_ms FROM lease_cordons ORDER BY gpu",
               [&](const Statement& row) {
                 book.kept.cordons.push_back({std::string(row.text(0)), std::string(row.text(1)),
                                              std::string(row.text(2)), wall_of(row.integer(3))});
               });
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
  std::uint64_t entries = 0;
  auto read =
      each_row(database, "SELECT value FROM lease_counters WHERE name = 'entries'",
               [&](const Statement& row) { entries = static_cast<std::uint64_t>(row.integer(0)); });
  if (!read) return std::move(read).error();
  return entries;
}

Result<void> save_leases(Database& database, const Entry& entry, std::uint64_t number) {
  if (auto done = add_events(database, entry.events); !done) return done;
  // An id that is forgotten may be another lease's in the same entry.
  if (auto done = forget(database, entry.forgotten); !done) return done;
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
  auto rows = database.prepare(
      "SELECT lease, at_ms, what, by, gpu FROM lease_events WHERE ?1 = '' OR lease = ?1 "
      "ORDER BY number DESC LIMIT ?2");
  if (!rows) return std::move(rows).error();
  rows->bind(1, lease).bind(2, most);
  std::vector<Event> events;
  auto read = each_row(*rows, [&](const Statement& row) {
    events.push_back({std::string(row.text(0)), wall_of(row.integer(1)), std::string(row.text(2)),
                      std::string(row.text(3)), std::string(row.text(4))});
  });
  if (!read) return std::move(read).error();
  std::ranges::reverse(events);
  return events;
}

}  // namespace gpuyard::store
