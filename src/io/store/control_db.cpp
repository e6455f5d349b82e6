#include "store/control_db.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/record.h"
#include "store/rows.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::Claim;
using control::Holding;

constexpr std::string_view kUnlocked = "-";

std::string text_of(const SettingValue& value) {
  return value.lowest == value.highest ? std::to_string(value.lowest)
                                       : fmt::format("{} {}", value.lowest, value.highest);
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

std::optional<SettingValue> value_of(std::string_view text) {
  const std::size_t space = text.find(' ');
  const auto lowest = number_of(text.substr(0, space));
  const auto highest = space == text.npos ? lowest : number_of(text.substr(space + 1));
  if (!lowest || !highest) return std::nullopt;
  return SettingValue{*lowest, *highest};
}

void bind_setting(Statement& statement, int parameter, const std::optional<Setting>& setting) {
  if (!setting) {
    statement.bind_null(parameter);
  } else {
    statement.bind(parameter, setting->value ? text_of(*setting->value) : std::string(kUnlocked));
  }
}

void bind_text(Statement& statement, int parameter, const std::optional<std::string>& text) {
  if (text) {
    statement.bind(parameter, *text);
  } else {
    statement.bind_null(parameter);
  }
}

std::optional<std::string> optional_text(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(std::string(row.text(column)));
}

// Reads rows, and remembers that one made no sense.
struct ControlReader {
  bool sound = true;

  SettingKind kind(std::string_view name) {
    const auto known = enum_from_name<SettingKind>(name);
    sound = sound && known.has_value();
    return known.value_or(SettingKind{});
  }
  SettingValue value(std::string_view text) {
    const auto read = value_of(text);
    sound = sound && read.has_value();
    return read.value_or(SettingValue{});
  }
  std::optional<Setting> setting(SettingKind kind, const Statement& row, int column) {
    if (row.is_null(column)) return std::nullopt;
    if (row.text(column) == kUnlocked) return Setting{kind, std::nullopt};
    return Setting{kind, value(row.text(column))};
  }
  Holding holding(const Statement& row) {
    Holding holding;
    holding.gpu = row.text(0);
    holding.kind = kind(row.text(1));
    holding.boot_id = row.text(2);
    const auto standing = enum_from_name<control::Standing>(row.text(3));
    sound = sound && standing.has_value();
    holding.standing = standing.value_or(control::Standing::owed);
    holding.baseline = setting(holding.kind, row, 4);
    holding.written = setting(holding.kind, row, 5);
    holding.replaced = setting(holding.kind, row, 6);
    return holding;
  }
  Claim claim(const Statement& row) {
    Claim claim;
    claim.owner = row.text(2);
    claim.wanted = value(row.text(3));
    claim.since = wall_of(row.integer(4));
    if (!row.is_null(5)) claim.until = point_of(row.integer(5));
    if (!row.is_null(6)) claim.until_wall = wall_of(row.integer(6));
    return claim;
  }
};

AuditEntry audit_entry_of(const Statement& row) {
  AuditEntry entry;
  entry.number = row.integer(0);
  entry.at = wall_of(row.integer(1));
  entry.by = row.text(2);
  entry.request_id = row.text(3);
  entry.action = row.text(4);
  entry.gpu = row.text(5);
  if (!row.is_null(6)) entry.index = static_cast<std::uint32_t>(row.integer(6));
  entry.before = optional_text(row, 7);
  entry.after = optional_text(row, 8);
  entry.outcome = row.text(9);
  entry.error = optional_text(row, 10);
  entry.forced = row.integer(11) != 0;
  entry.took = Duration(row.integer(12));
  entry.source = enum_from_name<AuditEntry::Source>(row.text(13)).value_or(entry.source);
  return entry;
}

Result<void> remove_rows(Database& database, const Holding& holding) {
  for (const char* const query : {"DELETE FROM control_holdings WHERE gpu=? AND kind=?",
                                  "DELETE FROM control_claims WHERE gpu=? AND kind=?"}) {
    auto remove = database.prepare(query);
    if (!remove) return std::move(remove).error();
    remove->bind(1, holding.gpu).bind(2, enum_name(holding.kind));
    if (auto done = remove->run(); !done) return done;
  }
  return {};
}

Result<void> put_claims(Database& database, const Holding& holding) {
  auto put = database.prepare("INSERT INTO control_claims VALUES(?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  std::int64_t place = 0;
  for (const Claim& claim : holding.claims) {
    put->bind(1, holding.gpu).bind(2, enum_name(holding.kind)).bind(3, place++);
    put->bind(4, claim.owner).bind(5, text_of(claim.wanted)).bind(6, ms(claim.since));
    bind_optional(*put, 7, claim.until ? std::optional(ns(*claim.until)) : std::nullopt);
    bind_optional(*put, 8, claim.until_wall ? std::optional(ms(*claim.until_wall)) : std::nullopt);
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> put_holding(Database& database, const Holding& holding) {
  if (auto done = remove_rows(database, holding); !done) return done;
  auto put = database.prepare("INSERT INTO control_holdings VALUES(?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  put->bind(1, holding.gpu).bind(2, enum_name(holding.kind)).bind(3, holding.boot_id);
  put->bind(4, enum_name(holding.standing));
  bind_setting(*put, 5, holding.baseline);
  bind_setting(*put, 6, holding.written);
  bind_setting(*put, 7, holding.replaced);
  if (auto done = put->run(); !done) return done;
  return put_claims(database, holding);
}

// Of one source: what is older than so many others of it, and than that time.
Result<void> prune_audit(Database& database, AuditEntry::Source source, std::int64_t kept,
                         std::int64_t before_ms = INT64_MAX) {
  auto prune = database.prepare(
      "DELETE FROM control_audit WHERE source = ?1 AND at_ms < ?3 AND number <= (SELECT number "
      "FROM "
      "control_audit WHERE source = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)");
  if (!prune) return std::move(prune).error();
  return prune->bind(1, enum_name(source)).bind(2, kept).bind(3, before_ms).run();
}

Result<void> prune_audit_for(Database& database, const AuditEntry& entry) {
  using control::Archive;
  switch (entry.source) {
    case AuditEntry::Source::user:
      return prune_audit(database, entry.source, Archive::kAuditKept);
    case AuditEntry::Source::lease:
      return prune_audit(database, entry.source, Archive::kLeaseChangesKept);
    case AuditEntry::Source::refused:
    case AuditEntry::Source::refused_over_tcp:
      return prune_audit(database, entry.source, Archive::kRefusalsKept);
    case AuditEntry::Source::administrator:
      break;
  }
  // By the second newest day on which something was noted: a clock that is wrong once takes
  // nothing.
  constexpr const char* kDayBefore =
      "SELECT MAX(at_ms) FROM control_audit WHERE source = 'administrator' AND at_ms < (SELECT "
      "MAX(at_ms) / 86400000 * 86400000 FROM control_audit WHERE source = 'administrator')";
  const auto day_before = database.number(kDayBefore);
  if (!day_before) return day_before.error();
  const auto kept_ms = std::chrono::milliseconds(Archive::kAdministratorsKept).count();
  auto done = prune_audit(database, entry.source, Archive::kAuditKept, *day_before - kept_ms);
  return done ? prune_audit(database, entry.source, Archive::kMostOfAdministrators) : done;
}

Result<void> put_audit(Database& database, const AuditEntry& entry) {
  auto put = database.prepare("INSERT INTO control_audit VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  put->bind(1, ms(entry.at)).bind(2, entry.by).bind(3, entry.request_id).bind(4, entry.action);
  put->bind(5, entry.gpu);
  bind_optional(*put, 6, entry.index ? std::optional(std::int64_t{*entry.index}) : std::nullopt);
  bind_text(*put, 7, entry.before);
  bind_text(*put, 8, entry.after);
  put->bind(9, entry.outcome);
  bind_text(*put, 10, entry.error);
  put->bind(11, std::int64_t{entry.forced}).bind(12, std::int64_t{entry.took.count()});
  put->bind(13, enum_name(entry.source));
  if (auto done = put->run(); !done) return done;
  return prune_audit_for(database, entry);
}

}  // namespace

Result<std::vector<Holding>> load_control(Database& database) {
  std::vector<Holding> holdings;
  ControlReader reader;
  auto read = each_row(database,
                       "SELECT gpu, kind, boot_id, standing, baseline, written, replaced "
                       "FROM control_holdings ORDER BY gpu, kind",
                       [&](const Statement& row) { holdings.push_back(reader.holding(row)); });
  if (!read) return std::move(read).error();
  read = each_row(database,
                  "SELECT gpu, kind, owner, wanted, since_ms, until_ns, until_ms "
                  "FROM control_claims ORDER BY gpu, kind, place",
                  [&](const Statement& row) {
                    const SettingKind kind = reader.kind(row.text(1));
                    const auto holding = std::ranges::find_if(holdings, [&](const Holding& one) {
                      return one.gpu == row.text(0) && one.kind == kind;
                    });
                    if (holding != holdings.end()) holding->claims.push_back(reader.claim(row));
                  });
  if (!read) return std::move(read).error();
  if (!reader.sound) {
    return Error{Errc::invalid,
                 "the settings kept in " + database.path() +
                     " are not of this version of gpuyard; start the one that wrote them, restore "
                     "everything, and end it"};
  }
  return holdings;
}

Result<void> save_control(Database& database, const control::Entry& entry) {
  if (entry.removed) {
    if (auto done = remove_rows(database, *entry.removed); !done) return done;
  }
  if (entry.put) {
    if (auto done = put_holding(database, *entry.put); !done) return done;
  }
  return entry.audit ? put_audit(database, *entry.audit) : Result<void>();
}

Result<std::vector<AuditEntry>> load_audit(Database& database,
                                           const control::AuditQuestion& question) {
  auto rows = database.prepare(
      "SELECT number, at_ms, by, request_id, action, gpu, gpu_index, before, after, outcome, "
      "error, forced, took_ns, source FROM control_audit "
      "WHERE (?1 = '' OR instr(',' || ?1 || ',', ',' || gpu || ',') > 0) AND number < ?2 ORDER BY "
      "number DESC LIMIT ?3");
  if (!rows) return std::move(rows).error();
  rows->bind(1, question.gpus).bind(2, question.before.value_or(INT64_MAX)).bind(3, question.limit);
  std::vector<AuditEntry> entries;
  auto read =
      each_row(*rows, [&](const Statement& row) { entries.push_back(audit_entry_of(row)); });
  if (!read) return std::move(read).error();
  std::ranges::reverse(entries);
  return entries;
}

bool ControlDb::load(std::function<void(Result<std::vector<Holding>>)> loaded) {
  return store_.ask<std::vector<Holding>>(&load_control, std::move(loaded));
}

bool ControlDb::save(control::Entry entry, control::When when, Kept kept) {
  if (when == control::When::now) return save_now(std::move(entry), kept);
  if (waiting_.size() >= kMostWaiting) return false;
  waiting_.push_back({std::move(entry), std::move(kept)});
  if (waiting_.size() == 1) soon_ = loop_.call_after(kSoon, [this] { keep_waiting(); });
  return true;
}

// A commit without a sync outlives a killed daemon, and a power cut takes the driver's half as
// well. What follows it soon, how the change ended and its line in the audit, is synced, and it
// with that.
bool ControlDb::save_now(control::Entry entry, const Kept& kept) {
  const std::optional<Holding> newer = entry.put ? entry.put : entry.removed;
  const auto older = [&](const std::optional<Holding>& one) {
    return one && newer && one->gpu == newer->gpu && one->kind == newer->kind;
  };
  // In the database itself only if this one is: until then they are what is to be kept.
  std::vector<Waiting> overtaken;
  for (Waiting& one : waiting_) {
    if (older(one.entry.put) || older(one.entry.removed)) {
      overtaken.push_back({{one.entry.put, one.entry.removed, std::nullopt}, one.kept});
      one.entry.put.reset();
      one.entry.removed.reset();
    }
  }
  const auto shared = std::make_shared<const control::Entry>(std::move(entry));
  const bool taken =
      store_.run([shared](Database& database) { return save_control(database, *shared); },
                 [kept, overtaken](const Result<void>& done) {
                   for (const Waiting& one : overtaken) one.kept(done);
                   kept(done);
                 },
                 Durability::normal);
  if (!taken) {
    for (const Waiting& one : overtaken) one.kept(Error{Errc::busy, "too much waits for the disk"});
  }
  return taken;
}

void ControlDb::keep_waiting() {
  soon_.reset();
  if (waiting_.empty()) return;
  const auto all = std::make_shared<std::vector<Waiting>>(std::exchange(waiting_, {}));
  const bool taken = store_.run(
      [all](Database& database) -> Result<void> {
        for (const Waiting& one : *all) {
          if (auto done = save_control(database, one.entry); !done) return done;
        }
        return {};
      },
      [all](const Result<void>& done) {
        for (const Waiting& one : *all) one.kept(done);
      });
  if (taken) return;
  for (const Waiting& one : *all) one.kept(Error{Errc::busy, "too much waits for the disk"});
}

bool ControlDb::audit(control::AuditQuestion question,
                      std::function<void(Result<std::vector<AuditEntry>>)> answered) {
  keep_waiting();
  return store_.ask<std::vector<AuditEntry>>(
      [question = std::move(question)](Database& database) {
        return load_audit(database, question);
      },
      std::move(answered));
}

}  // namespace gpuyard::store
