// The tables of control in state.db: managed settings, setting claims, and the audit trail.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/control/audit.h"
#include "core/control/managed_setting.h"
#include "io/store/sqlite.h"

namespace gpuyard::store {

// A setting is one or two numbers, "300000" or "1200 1500"; "-" means clocks that are not locked.
// Times are nanoseconds of the boot clock and milliseconds of the wall clock.
inline constexpr const char* kControlTables = R"(
CREATE TABLE control_holdings(
  gpu TEXT NOT NULL,
  kind TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  standing TEXT NOT NULL,
  baseline TEXT,
  written TEXT,
  replaced TEXT,
  PRIMARY KEY(gpu, kind)) WITHOUT ROWID;
CREATE TABLE control_claims(
  gpu TEXT NOT NULL,
  kind TEXT NOT NULL,
  place INTEGER NOT NULL,
  owner TEXT NOT NULL,
  wanted TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  until_ns INTEGER,
  until_ms INTEGER,
  PRIMARY KEY(gpu, kind, place)) WITHOUT ROWID;
CREATE TABLE control_audit(
  number INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  by TEXT NOT NULL,
  request_id TEXT NOT NULL,
  action TEXT NOT NULL,
  gpu TEXT NOT NULL,
  gpu_index INTEGER,
  before TEXT,
  after TEXT,
  outcome TEXT NOT NULL,
  error TEXT,
  forced INTEGER NOT NULL,
  took_ns INTEGER NOT NULL);
)";

// The source of each audit entry: the entries of each source are kept apart.
inline constexpr const char* kAuditSources = R"(
ALTER TABLE control_audit ADD COLUMN source TEXT NOT NULL DEFAULT 'user';
UPDATE control_audit SET source = 'refused' WHERE outcome = 'refused';
UPDATE control_audit SET source = 'administrator' WHERE source = 'user' AND by = 'uid 0';
CREATE INDEX control_audit_by_source ON control_audit(source, number);
)";

// Index for filtering entries by GPU.
inline constexpr const char* kAuditByGpu =
    "CREATE INDEX control_audit_by_gpu ON control_audit(gpu, number);";

// Adds the person that an entry counts for, taken from the entry's text, and separate sources for
// users who may only lease and for gpuyard itself.
inline constexpr const char* kAuditPersons = R"(
ALTER TABLE control_audit ADD COLUMN person TEXT NOT NULL DEFAULT '';
UPDATE control_audit SET person = substr(by, 1, instr(by || ' under lease ', ' under lease ') - 1);
UPDATE control_audit SET person = substr(person, 1, instr(person || ' by ', ' by ') - 1);
UPDATE control_audit SET source = 'gpuyard' WHERE source = 'user' AND by = 'gpuyard';
UPDATE control_audit SET source = 'ordinary' WHERE source = 'user'
  AND (action LIKE 'make token %' OR action LIKE 'revoke token %');
CREATE INDEX control_audit_by_person ON control_audit(source, person, number);
)";

// A setting of a kind or with a value that this program does not know is an error: otherwise it
// would be left in force forever.
Result<std::vector<control::ManagedSetting>> load_control(Database&);
Result<void> save_control(Database&, const control::ControlTransaction&);
// The same, for a transaction that may be saved already.
Result<void> save_once(Database&, const control::ControlTransaction&);
Result<std::vector<control::AuditEntry>> load_audit(Database&, const control::AuditQuery&);

// The columns of a managed setting, of a claim behind the GPU, the kind and the place, and of an
// audit entry behind its number. The journal has the same (control_journal.h).
std::optional<std::string> form_of(const std::optional<Setting>&);
std::string form_of_value(const SettingValue&);
bool read_setting(SettingKind, const std::optional<std::string>& form, std::optional<Setting>&);
bool read_value(std::string_view form, SettingValue&);

inline constexpr auto kManagedSettingColumns = [](auto& row, auto& managed) {
  row(managed.gpu, managed.kind, managed.boot_id, managed.status);
  for (auto* const setting : {&managed.baseline, &managed.written, &managed.replaced}) {
    row.as(*setting, &form_of, [&managed](const std::optional<std::string>& form, auto& read) {
      return read_setting(managed.kind, form, read);
    });
  }
};
inline constexpr auto kClaimColumns = [](auto& row, auto& claim) {
  row(claim.owner);
  row.as(claim.value, &form_of_value, &read_value);
  row(claim.since, claim.until, claim.until_wall);
};
inline constexpr auto kAuditColumns = [](auto& row, auto& entry) {
  row(entry.at, entry.by, entry.request_id, entry.action, entry.gpu, entry.index, entry.before,
      entry.after, entry.outcome, entry.error, entry.forced, entry.took, entry.source,
      entry.quota_group);
};

}  // namespace gpuyard::store
