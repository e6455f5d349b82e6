#include "daemon/change_audit.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/record.h"
#include "base/text.h"
#include "base/try.h"
#include "gpu/device/setting.h"

namespace gpuyard::daemon {
namespace {

using driver::ChangeLine;
using driver::ChangeStep;
using protocol::AuditLine;

// A GPU, and the name of a setting; "" for its ECC counters.
using Subject = std::pair<DeviceId, std::string>;

// The entry of a change is written after the answer of the setter, at most as long after it
// as a client waits and the disk takes.
constexpr std::int64_t kMaxEntryDelayMs = 60'000;
constexpr std::int64_t kMaxClockStepMs = 2000;
// Entries are batched: control::ControlStorage::kMaxCommitDelay, and what the disk takes.
constexpr std::int64_t kMaxWriteDelayMs = 1000;

std::int64_t to_ms(std::string_view time) {
  const auto seconds = from_rfc3339(time);
  constexpr std::size_t kFraction = 20;  // behind "2026-01-31T12:00:00."
  const auto fraction = time.size() > kFraction + 3
                            ? parse_number<std::int64_t>(time.substr(kFraction, 3)).value_or(0)
                            : 0;
  return seconds ? to_unix_ms(*seconds) / 1000 * 1000 + fraction : 0;
}

struct SetterChange {
  const ChangeLine* line;
  std::string text;        // the value that was set
  std::string read;        // the value that was read back
  bool confirmed = false;  // the driver did it
  bool last = false;       // of its setter
  bool matched = false;
};

struct AuditEntry {
  const AuditLine* line;
  bool needs_change = false;
  bool reconciles = false;  // gpuyard found what became of a change when a daemon had ended
  bool matched = false;
};

struct SubjectRecords {
  std::vector<SetterChange> changes;
  std::vector<AuditEntry> entries;
};

std::string text_of_value(SettingKind kind, const std::optional<SettingValue>& value) {
  return text_of({kind, value});
}

// Returns the setting of an action such as "set power_limit to 300 W"; nothing if it changes none.
std::optional<std::string> setting_in(std::string_view action) {
  if (action.starts_with("clear ") && action.ends_with(" ECC counters")) return "";
  while (!action.empty()) {
    const std::string_view word = take_until(' ', action);
    if (enum_from_name<SettingKind>(word)) return std::string(word);
  }
  return std::nullopt;
}

bool has_changed_gpu(const AuditLine& line) {
  constexpr std::array<std::string_view, 6> kChanged = {"applied", "assumed",  "pending_reboot",
                                                        "held",    "restored", "cleared"};
  return std::ranges::find(kChanged, line.outcome) != kChanged.end();
}

std::map<Subject, SubjectRecords> records_by_subject(const driver::LoggedChanges& changes,
                                                     const std::vector<AuditLine>& audit) {
  std::map<Subject, SubjectRecords> by_subject;
  std::map<std::uint64_t, std::pair<Subject, std::size_t>> open;
  const auto end_of_setter = [&] {
    for (auto& [subject, records] : by_subject) {
      if (!records.changes.empty()) records.changes.back().last = true;
    }
  };
  for (const ChangeLine& line : changes.lines) {
    if (line.step == ChangeStep::start) end_of_setter();
    if (line.step == ChangeStep::change) {
      const Subject subject{line.gpu, line.setting ? std::string(enum_name(*line.setting)) : ""};
      auto& subject_changes = by_subject[subject].changes;
      open[line.number] = {subject, subject_changes.size()};
      subject_changes.push_back(
          {&line, line.setting ? text_of_value(*line.setting, line.value) : "", ""});
    }
    if (line.step != ChangeStep::done && line.step != ChangeStep::failed) continue;
    const auto found = open.extract(line.of);
    if (!found) continue;
    const auto& [subject, index] = found.mapped();
    SetterChange& change = by_subject[subject].changes.at(index);
    change.confirmed = line.step == ChangeStep::done;
    // A refused change needs no entry, and its entry needs no change.
    if (!change.confirmed) change.matched = true;
    if (change.line->setting && line.value)
      change.read = text_of_value(*change.line->setting, line.value);
  }
  end_of_setter();
  for (const AuditLine& line : audit) {
    const auto setting = setting_in(line.action);
    if (line.gpu.empty() || !setting || !has_changed_gpu(line)) continue;
    by_subject[{line.gpu, *setting}].entries.push_back(
        {&line, line.outcome == "cleared" || line.before != line.after,
         line.by == "gpuyard" && line.action.starts_with("reconcile")});
  }
  return by_subject;
}

bool has_same_value(const SetterChange& change, const AuditEntry& entry) {
  if (!change.line->setting) return entry.line->outcome == "cleared";
  return entry.line->after &&
         (*entry.line->after == change.text || *entry.line->after == change.read);
}

// Both lists are in the order in which the changes were made.
void match_entries(SubjectRecords& records) {
  std::size_t from = 0;
  for (SetterChange& change : records.changes) {
    if (change.matched) continue;
    const std::int64_t at = to_ms(change.line->at);
    for (std::size_t i = from; i < records.entries.size(); ++i) {
      AuditEntry& entry = records.entries[i];
      const std::int64_t entered = to_unix_ms(entry.line->at);
      const std::int64_t took = to_milliseconds(entry.line->took);
      if (entered > at + kMaxEntryDelayMs + took) break;
      if (entered < at - kMaxClockStepMs || !has_same_value(change, entry)) continue;
      change.matched = entry.matched = true;
      from = i + 1;
      break;
    }
  }
}

// The daemon was killed before it could write the entries of its last moment: the next one has
// found the last value, and has recorded it as the value before or after its own change.
void match_reconciled(SubjectRecords& records) {
  for (std::size_t i = 0; i < records.changes.size(); ++i) {
    SetterChange& change = records.changes[i];
    if (change.matched || !change.last) continue;
    const auto next = std::ranges::find_if(records.entries, [&](const AuditEntry& entry) {
      return to_rfc3339(entry.line->at) >= change.line->at;
    });
    if (next == records.entries.end() || !next->reconciles) continue;
    const bool before = next->line->before &&
                        (*next->line->before == change.text || *next->line->before == change.read);
    if (!before && !has_same_value(change, *next)) continue;
    if (!before) next->matched = true;
    for (std::size_t j = i + 1; j-- > 0;) {
      SetterChange& earlier = records.changes[j];
      if ((j < i && earlier.last) ||
          to_ms(earlier.line->at) < to_ms(change.line->at) - kMaxWriteDelayMs) {
        break;
      }
      earlier.matched = true;
    }
  }
}

// The times in which the log could not be written, and what a power cut may have taken of it.
std::vector<std::pair<std::string, std::string>> unsynced_gaps(
    const driver::LoggedChanges& changes) {
  std::vector<std::pair<std::string, std::string>> gaps;
  std::string boot;
  std::string last;
  for (const ChangeLine& line : changes.lines) {
    if (line.step == ChangeStep::missed) gaps.emplace_back(line.missed_since, line.at);
    if (line.step == ChangeStep::start) {
      constexpr std::chrono::seconds kUnsynced{1};
      if (!boot.empty() && boot != line.boot) {
        const auto end = from_rfc3339(last);
        gaps.emplace_back(last, end ? to_rfc3339(*end + 2 * kUnsynced) : last);
      }
      boot = line.boot;
    }
    last = line.at;
  }
  return gaps;
}

// The newest changes that the audit has entries of, however many users it names: a forged audit
// could name so many users that nothing would be compared.
constexpr std::size_t kMinComparedChanges = 1000;

// The number of entries of the audit is limited by kind and user: beyond the smallest limit, older
// ones may have been removed. Returns the time from which on none was.
std::string audit_complete_since(const std::vector<AuditLine>& audit) {
  constexpr auto kMinAuditLimit = static_cast<std::size_t>(limits::kMaxLeaseAuditLines);
  if (audit.size() < kMinAuditLimit) return "";
  std::set<std::string> users;
  for (const AuditLine& line : audit) users.insert(line.by);
  const std::size_t complete = std::max<std::size_t>(kMinAuditLimit / users.size(), 1);
  return to_rfc3339(audit[audit.size() - complete].at);
}

std::string compared_since(const driver::LoggedChanges& changes) {
  std::size_t count = 0;
  for (auto line = changes.lines.rbegin(); line != changes.lines.rend(); ++line) {
    if (line->step == ChangeStep::change && ++count == kMinComparedChanges) return line->at;
  }
  return "";
}

std::string name_of(const Subject& subject) {
  return subject.second.empty() ? "the ECC counters" : subject.second;
}

}  // namespace

ChangeComparison compare_changes(const driver::LoggedChanges& changes,
                                 const std::vector<AuditLine>& audit, const std::string& until) {
  ChangeComparison result;
  result.differences = changes.faults;
  if (changes.lines.empty()) return result;
  const std::string log_since = changes.lines.front().at;
  const std::string audit_since = audit_complete_since(audit);
  result.since = std::max(log_since, std::min(audit_since, compared_since(changes)));
  const auto gaps = unsynced_gaps(changes);
  std::vector<std::pair<std::string, std::string>> found;  // by time
  for (auto& [subject, records] : records_by_subject(changes, audit)) {
    match_entries(records);
    match_reconciled(records);
    for (const SetterChange& change : records.changes) {
      if (change.line->at < result.since) ++result.older;
      if (change.line->at < result.since || change.line->at >= until) continue;
      ++result.changes;
      // The last change of a setter that was killed inside it may not have been made.
      if (change.matched || (!change.confirmed && change.last)) continue;
      found.emplace_back(
          change.line->at,
          fmt::format("{}: GPU {}: {}{}{} (change {}), of which the audit has no entry",
                      change.line->at, subject.first, name_of(subject),
                      change.text.empty() ? " were cleared" : " was set to ", change.text,
                      change.line->number));
    }
    for (const AuditEntry& entry : records.entries) {
      const AuditLine& line = *entry.line;
      const std::string at = to_rfc3339(line.at);
      if (entry.matched || !entry.needs_change || at < log_since || at >= until) continue;
      const bool in_gap = std::ranges::any_of(
          gaps, [&](const auto& gap) { return at >= gap.first && at <= gap.second; });
      if (in_gap && !line.action.starts_with("set ")) {
        ++result.excused;
        continue;
      }
      found.emplace_back(at, fmt::format("{}: GPU {}: audit entry {} ({} by {}), of which the "
                                         "setter has no change",
                                         at, subject.first, line.number, line.action, line.by));
    }
  }
  std::ranges::sort(found);
  for (auto& [at, text] : found) result.differences.push_back(std::move(text));
  return result;
}

Result<ChangeComparison> compare_with_log(const std::string& path,
                                          const std::vector<AuditLine>& audit,
                                          const std::string& until) {
  const auto changes = GPUYARD_TRY(driver::read_change_log(path));
  return compare_changes(changes, audit, until);
}

std::string change_log_of(const std::string& state_directory, const std::string& socket) {
  const std::string of_service = "/var/lib/gpuyard-setter/changes.log";
  const bool service =
      socket == "/run/gpuyard/gpuyard.sock" && ::access(of_service.c_str(), F_OK) == 0;
  return service ? of_service : state_directory + "/changes.log";
}

}  // namespace gpuyard::daemon
