#include "io/store/control_db.h"

#include <algorithm>
#include <utility>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include <fmt/format.h>

#include "base/record.h"
#include "base/text.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::ManagedSetting;
using control::SettingClaim;

constexpr std::string_view kUnlocked = "-";

std::string text_of(const SettingValue& value) {
  return value.lowest == value.highest ? std::to_string(value.lowest)
                                       : fmt::format("{} {}", value.lowest, value.highest);
}

std::optional<SettingValue> value_of(std::string_view text) {
  const std::size_t space = text.find(' ');
  const auto lowest = parse_number<std::int64_t>(text.substr(0, space));
  const auto highest =
      space == text.npos ? lowest : parse_number<std::int64_t>(text.substr(space + 1));
  if (!lowest || !highest) return std::nullopt;
  return SettingValue{*lowest, *highest};
}

std::optional<std::string> form_of(const std::optional<Setting>& setting) {
  if (!setting) return std::nullopt;
  return setting->value ? text_of(*setting->value) : std::string(kUnlocked);
}

// Reads a setting of this kind from the form that form_of() writes.
auto setting_from(SettingKind kind) {
  return [kind](const std::optional<std::string>& form, std::optional<Setting>& setting) {
    setting.reset();
    if (!form) return true;
    setting = Setting{kind, std::nullopt};
    if (*form == kUnlocked) return true;
    setting->value = value_of(*form);
    return setting->value.has_value();
  };
}

constexpr auto kManagedSetting = [](auto& row, auto& managed) {
  row(managed.gpu, managed.kind, managed.boot_id, managed.status);
  for (auto* const setting : {&managed.baseline, &managed.written, &managed.replaced}) {
    row.as(*setting, &form_of, setting_from(managed.kind));
  }
};
// The columns behind the GPU, the kind and the place.
constexpr auto kClaim = [](auto& row, auto& claim) {
  row(claim.owner);
  row.as(claim.value, &text_of, [](std::string_view form, SettingValue& wanted) {
    const auto value = value_of(form);
    wanted = value.value_or(SettingValue{});
    return value.has_value();
  });
  row(claim.since, claim.until, claim.until_wall);
};
// The columns behind the number.
constexpr auto kAudit = [](auto& row, auto& entry) {
  row(entry.at, entry.by, entry.request_id, entry.action, entry.gpu, entry.index, entry.before,
      entry.after, entry.outcome, entry.error, entry.forced, entry.took, entry.source,
      entry.quota_group);
};

constexpr auto kNumberedAudit = [](auto& row, auto& entry) {
  row(entry.number);
  kAudit(row, entry);
};

Result<void> remove_rows(Database& database, const ManagedSetting& setting) {
  for (const char* const query : {"DELETE FROM control_holdings WHERE gpu=? AND kind=?",
                                  "DELETE FROM control_claims WHERE gpu=? AND kind=?"}) {
    if (auto done = run(database, query, setting.gpu, setting.kind); !done) return done;
  }
  return {};
}

Result<void> put_claims(Database& database, const ManagedSetting& setting) {
  auto put = database.prepare("INSERT INTO control_claims VALUES(?,?,?,?,?,?,?,?)");
  if (!put) return std::move(put).error();
  std::int64_t position = 0;
  for (const SettingClaim& claim : setting.claims) {
    RowWriter row(*put);
    row(setting.gpu, setting.kind, position++);
    kClaim(row, claim);
    if (auto done = put->run(); !done) return done;
  }
  return {};
}

Result<void> put_holding(Database& database, const ManagedSetting& setting) {
  if (auto done = remove_rows(database, setting); !done) return done;
  auto put = run_for_each(database, "INSERT INTO control_holdings VALUES(?,?,?,?,?,?,?)",
                          std::span(&setting, 1), kManagedSetting);
  return put ? put_claims(database, setting) : put;
}

// The number of entries between two prunings of all sources: pruning is slow.
constexpr std::int64_t kPruneInterval = 64;

// Deletes the entries of a source above `max_entries`: repeatedly the oldest entry of the person
// with the most entries.
Result<void> prune_fairly(Database& database, AuditEntry::Source source, std::int64_t max_entries) {
  const auto count = database.query_number(
      fmt::format("SELECT COUNT(*) FROM control_audit WHERE source = '{}'", enum_name(source)));
  if (!count) return count.error();
  if (*count <= max_entries) return {};
  return run(database,
             "DELETE FROM control_audit WHERE number IN (SELECT number FROM (SELECT number, "
             "row_number() OVER (PARTITION BY person ORDER BY number DESC) AS place FROM "
             "control_audit WHERE source = ?1) ORDER BY place DESC, number LIMIT ?2)",
             source, *count - max_entries);
}

// Deletes the entries of administrators that are older than their newest `max_entries` and than
// `before_ms`.
Result<void> prune_administrators(Database& database, std::int64_t max_entries,
                                  std::int64_t before_ms = INT64_MAX) {
  return run(database,
             "DELETE FROM control_audit WHERE source = 'administrator' AND at_ms < ?2 AND number "
             "<= (SELECT number FROM control_audit WHERE source = 'administrator' ORDER BY number "
             "DESC LIMIT 1 OFFSET ?1)",
             max_entries, before_ms);
}

// Age is counted from the second newest day with an entry, so that a clock that is wrong once
// deletes nothing.
Result<void> prune_administrators(Database& database) {
  using control::ControlStorage;
  constexpr const char* kDayBefore =
      "SELECT MAX(at_ms) FROM control_audit WHERE source = 'administrator' AND at_ms < (SELECT "
      "MAX(at_ms) / 86400000 * 86400000 FROM control_audit WHERE source = 'administrator')";
  const auto day_before = database.query_number(kDayBefore);
  if (!day_before) return day_before.error();
  const auto retention_ms =
      std::chrono::milliseconds(ControlStorage::kAdministratorRetention).count();
  auto done =
      prune_administrators(database, ControlStorage::kMaxAuditEntries, *day_before - retention_ms);
  return done ? prune_administrators(database, ControlStorage::kMaxAdministratorEntries) : done;
}

Result<void> prune_audit(Database& database, AuditEntry::Source source) {
  using control::ControlStorage;
  switch (source) {
    case AuditEntry::Source::user:
    case AuditEntry::Source::gpuyard:
      return prune_fairly(database, source, ControlStorage::kMaxAuditEntries);
    case AuditEntry::Source::ordinary:
      return prune_fairly(database, source, ControlStorage::kMaxOrdinaryEntries);
    case AuditEntry::Source::lease:
      return prune_fairly(database, source, ControlStorage::kMaxLeaseEntries);
    case AuditEntry::Source::refused:
    case AuditEntry::Source::refused_over_tcp:
      return prune_fairly(database, source, ControlStorage::kMaxRefusalEntries);
    case AuditEntry::Source::administrator:
      break;
  }
  return prune_administrators(database);
}

Result<void> prune_audit(Database& database) {
  Result<void> done;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<AuditEntry::Source>>(
      [&](auto source) {
        if (done) done = prune_audit(database, source.value);
      });
  return done;
}

Result<void> put_audit(Database& database, const AuditEntry& entry) {
  auto put =
      run_for_each(database, "INSERT INTO control_audit VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                   std::span(&entry, 1), kAudit);
  if (!put) return put;
  const auto newest = database.query_number("SELECT MAX(number) FROM control_audit");
  if (!newest) return newest.error();
  return *newest % kPruneInterval == 0 ? prune_audit(database) : Result<void>();
}

}  // namespace

// A setting with an unreadable row stays as it is until it is set or reset, because its baseline is
// unknown. An unreadable request for a setting is dropped.
Result<std::vector<ManagedSetting>> load_control(Database& database) {
  struct StoredClaim {
    DeviceId gpu;
    SettingKind kind{};
    SettingClaim claim;
  };
  std::vector<ManagedSetting> settings;
  std::vector<StoredClaim> claims;
  const RowSelection of_settings{"control_holdings", "gpu || ' ' || kind",
                                 "gpu, kind, boot_id, standing, baseline, written, replaced",
                                 "ORDER BY gpu, kind"};
  const RowSelection of_claims{"control_claims", "gpu || ' ' || kind || ' ' || place",
                               "gpu, kind, owner, wanted, since_ms, until_ns, until_ms",
                               "ORDER BY gpu, kind, place"};
  auto read = read_rows(settings, database, of_settings, kManagedSetting);
  if (read) {
    read = read_rows(claims, database, of_claims, [](auto& row, auto& one) {
      row(one.gpu, one.kind);
      kClaim(row, one.claim);
    });
  }
  if (!read) return std::move(read).error();
  for (StoredClaim& one : claims) {
    const auto found = std::ranges::find_if(settings, [&](const ManagedSetting& setting) {
      return setting.gpu == one.gpu && setting.kind == one.kind;
    });
    if (found != settings.end()) found->claims.push_back(std::move(one.claim));
  }
  return settings;
}

Result<void> save_control(Database& database, const control::ControlTransaction& transaction) {
  if (transaction.removed) {
    if (auto done = remove_rows(database, *transaction.removed); !done) return done;
  }
  if (transaction.put) {
    if (auto done = put_holding(database, *transaction.put); !done) return done;
  }
  return transaction.audit ? put_audit(database, *transaction.audit) : Result<void>();
}

Result<std::vector<AuditEntry>> load_audit(Database& database, const control::AuditQuery& query) {
  std::vector<AuditEntry> entries;
  const std::string columns =
      "SELECT number, at_ms, by, request_id, action, gpu, gpu_index, before, after, outcome, "
      "error, forced, took_ns, source, person FROM control_audit WHERE ";
  const std::int64_t before = query.before.value_or(INT64_MAX);
  auto read =
      query.gpus.empty()
          ? read_into(entries, database, columns + "number < ?1 ORDER BY number DESC LIMIT ?2",
                      kNumberedAudit, before, query.limit)
          : read_into(entries, database,
                      columns +
                          "number IN (SELECT a.number FROM json_each(?3) AS g, "
                          "control_audit AS a WHERE a.gpu = g.value AND a.number < ?1 "
                          "ORDER BY a.number DESC LIMIT ?2) ORDER BY number DESC",
                      kNumberedAudit, before, query.limit, json_list(query.gpus));
  if (!read) return std::move(read).error();
  std::ranges::reverse(entries);
  return entries;
}

bool ControlDb::load(std::function<void(Result<std::vector<ManagedSetting>>)> on_done) {
  return store_.load<std::vector<ManagedSetting>>(&load_control, std::move(on_done));
}

bool ControlDb::save(control::ControlTransaction transaction, control::CommitTiming when,
                     OnSaved on_done) {
  if (when == control::CommitTiming::now) return save_now(std::move(transaction), on_done);
  if (!transaction.put && !transaction.removed && !transaction.audit) {
    loop_.post([on_done = std::move(on_done)] { on_done({}); });
    return true;
  }
  // A setting that was written to the GPU must be recorded, so it does not count towards its user's
  // quota.
  const bool of_setting = transaction.put || transaction.removed;
  if (!queue_limit_.try_acquire(of_setting ? Requester::daemon() : transaction.requester))
    return false;
  waiting_.push_back({std::move(transaction), std::move(on_done)});
  if (waiting_.size() == 1) flush_timer_ = loop_.call_after(kMaxCommitDelay, [this] { flush(); });
  return true;
}

// A commit without a sync survives a killed daemon, and a power cut takes the driver's setting as
// well. How the change ended and its line in the audit follow soon and are synced, and this
// transaction with them.
bool ControlDb::save_now(control::ControlTransaction transaction, const OnSaved& on_done) {
  const std::optional<ManagedSetting> newer =
      transaction.put ? transaction.put : transaction.removed;
  const auto older = [&](const std::optional<ManagedSetting>& one) {
    return one && newer && one->gpu == newer->gpu && one->kind == newer->kind;
  };
  // Older waiting states of this setting are not written any more: each counts as committed if and
  // only if this transaction is.
  std::vector<QueuedSave> superseded;
  for (QueuedSave& one : waiting_) {
    if (older(one.entry.put) || older(one.entry.removed)) {
      superseded.push_back({{one.entry.put, one.entry.removed, std::nullopt}, one.on_done});
      one.entry.put.reset();
      one.entry.removed.reset();
    }
  }
  const auto shared = std::make_shared<const control::ControlTransaction>(std::move(transaction));
  const bool taken = store_.run(
      Requester::daemon(), [shared](Database& database) { return save_control(database, *shared); },
      [on_done, superseded](const Result<void>& result) {
        for (const QueuedSave& one : superseded) one.on_done(result);
        on_done(result);
      },
      Durability::normal);
  if (!taken) {
    for (const QueuedSave& one : superseded)
      one.on_done(Error{Errc::busy, "the disk queue is full"});
  }
  return taken;
}

void ControlDb::flush() {
  flush_timer_.reset();
  if (waiting_.empty()) return;
  const auto all = std::make_shared<std::vector<QueuedSave>>(std::exchange(waiting_, {}));
  queue_limit_ = SlotPool(kQueueLimits);
  const bool taken = store_.run(
      Requester::daemon(),
      [all](Database& database) -> Result<void> {
        for (const QueuedSave& one : *all) {
          if (auto done = save_control(database, one.entry); !done) return done;
        }
        return {};
      },
      [all](const Result<void>& result) {
        for (const QueuedSave& one : *all) one.on_done(result);
      });
  if (taken) return;
  for (const QueuedSave& one : *all) one.on_done(Error{Errc::busy, "the disk queue is full"});
}

bool ControlDb::query_audit(control::AuditQuery query,
                            std::function<void(Result<std::vector<AuditEntry>>)> on_done) {
  flush();
  return store_.run_query<std::vector<AuditEntry>>(
      [query = std::move(query)](Database& database) { return load_audit(database, query); },
      std::move(on_done));
}

}  // namespace gpuyard::store
