#include "io/store/control_tables.h"

#include <algorithm>
#include <utility>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include <fmt/format.h>

#include "base/record.h"
#include "base/text.h"
#include "base/try.h"
#include "io/store/sqlite.h"
#include "io/store/sqlite_rows.h"
#include "io/store/unreadable.h"

namespace gpuyard::store {
namespace {

using control::AuditEntry;
using control::ManagedSetting;
using control::SettingClaim;

constexpr std::string_view kUnlocked = "-";

constexpr auto kNumberedAudit = [](auto& row, auto& entry) {
  row(entry.number);
  kAuditColumns(row, entry);
};

Result<void> remove_rows(Database& database, const ManagedSetting& setting) {
  for (const char* const query : {"DELETE FROM control_holdings WHERE gpu=? AND kind=?",
                                  "DELETE FROM control_claims WHERE gpu=? AND kind=?"}) {
    GPUYARD_TRY(run(database, query, setting.gpu, setting.kind));
  }
  return {};
}

Result<void> put_claims(Database& database, const ManagedSetting& setting) {
  auto put = GPUYARD_TRY(database.prepare("INSERT INTO control_claims VALUES(?,?,?,?,?,?,?,?)"));
  std::int64_t position = 0;
  for (const SettingClaim& claim : setting.claims) {
    RowWriter row(put);
    row(setting.gpu, setting.kind, position++);
    kClaimColumns(row, claim);
    GPUYARD_TRY(put.run());
  }
  return {};
}

Result<void> put_holding(Database& database, const ManagedSetting& setting) {
  GPUYARD_TRY(remove_rows(database, setting));
  auto put = run_for_each(database, "INSERT INTO control_holdings VALUES(?,?,?,?,?,?,?)",
                          std::span(&setting, 1), kManagedSettingColumns);
  return put ? put_claims(database, setting) : put;
}

// The number of entries between two prunings of all sources: pruning is slow.
constexpr std::int64_t kPruneInterval = 256;

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
  auto excess = GPUYARD_TRY(
      prepare(database,
              "SELECT number FROM control_audit WHERE source = 'administrator' ORDER BY "
              "number DESC LIMIT 1 OFFSET ?",
              ControlStorage::kMaxAuditEntries));
  const auto found = excess.step();
  if (!found || !*found) return found ? Result<void>() : Result<void>(found.error());
  excess.reset();
  const auto day_before = GPUYARD_TRY(database.query_number(kDayBefore));
  const auto retention_ms =
      std::chrono::milliseconds(ControlStorage::kAdministratorRetention).count();
  auto done =
      prune_administrators(database, ControlStorage::kMaxAuditEntries, day_before - retention_ms);
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
                   std::span(&entry, 1), kAuditColumns);
  if (!put) return put;
  const auto newest = GPUYARD_TRY(database.query_number("SELECT last_insert_rowid()"));
  return newest % kPruneInterval == 0 ? prune_audit(database) : Result<void>();
}

}  // namespace

std::string form_of_value(const SettingValue& value) {
  return value.lowest == value.highest ? std::to_string(value.lowest)
                                       : fmt::format("{} {}", value.lowest, value.highest);
}

bool read_value(std::string_view form, SettingValue& value) {
  const std::size_t space = form.find(' ');
  const auto lowest = parse_number<std::int64_t>(form.substr(0, space));
  const auto highest =
      space == form.npos ? lowest : parse_number<std::int64_t>(form.substr(space + 1));
  value = {lowest.value_or(0), highest.value_or(0)};
  return lowest && highest;
}

std::optional<std::string> form_of(const std::optional<Setting>& setting) {
  if (!setting) return std::nullopt;
  return setting->value ? form_of_value(*setting->value) : std::string(kUnlocked);
}

bool read_setting(SettingKind kind, const std::optional<std::string>& form,
                  std::optional<Setting>& setting) {
  setting.reset();
  if (!form) return true;
  setting = Setting{kind, std::nullopt};
  return *form == kUnlocked || read_value(*form, setting->value.emplace());
}

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
  auto read = read_rows(settings, database, of_settings, kManagedSettingColumns);
  if (read) {
    read = read_rows(claims, database, of_claims, [](auto& row, auto& one) {
      row(one.gpu, one.kind);
      kClaimColumns(row, one.claim);
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
    GPUYARD_TRY(remove_rows(database, *transaction.removed));
  }
  if (transaction.put) {
    GPUYARD_TRY(put_holding(database, *transaction.put));
  }
  return transaction.audit ? put_audit(database, *transaction.audit) : Result<void>();
}

// Changes of a GPU are made one after the other, so no two of its entries are alike; of two equal
// refusals in one millisecond one is kept. An entry that may be saved already is among the newest.
Result<void> save_once(Database& database, const control::ControlTransaction& transaction) {
  if (!transaction.audit) return save_control(database, transaction);
  const AuditEntry& entry = *transaction.audit;
  auto same = GPUYARD_TRY(prepare(
      database,
      "SELECT 1 FROM control_audit WHERE at_ms = ? AND by = ? AND request_id = ? AND "
      "action = ? AND gpu = ? AND outcome = ? AND took_ns = ? AND number > (SELECT "
      "COALESCE(MAX(number), 0) FROM control_audit) - 1000",
      entry.at, entry.by, entry.request_id, entry.action, entry.gpu, entry.outcome, entry.took));
  const auto found = GPUYARD_TRY(same.step());
  same.reset();
  control::ControlTransaction missing = transaction;
  if (found) missing.audit.reset();
  return save_control(database, missing);
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

}  // namespace gpuyard::store
