#include "core/control/audit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/record.h"

namespace gpuyard::control {
namespace {

constexpr std::size_t kMaxTextBytes = 512;

std::optional<std::string> setting_text(const std::optional<Setting>& setting) {
  return setting ? std::optional(text_of(*setting)) : std::nullopt;
}

// Message and cause: the audit log does not store hints.
std::string audit_text(Error why) {
  why.hint.clear();
  return why.text();
}

AuditEntry::Source source_of(const ChangeRequester& asker) {
  using Source = AuditEntry::Source;
  if (asker.internal) return Source::gpuyard;
  if (asker.admin) return Source::administrator;
  if (asker.owner.starts_with("lease:")) return Source::lease;
  return asker.member ? Source::user : Source::ordinary;
}

AuditEntry::Source source_of_refusal(const ChangeRequester& asker) {
  using Source = AuditEntry::Source;
  if (asker.admin || asker.internal) return Source::administrator;
  if (asker.over_tcp) return Source::refused_over_tcp;
  return asker.member ? Source::user : Source::refused;
}

// Cuts the text to kMostText bytes, between two characters.
void truncate_text(std::string& text) {
  if (text.size() <= kMaxTextBytes) return;
  std::size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
}

// Returns false if the entry is dropped; otherwise adds the number of earlier ones that were.
bool admit(const std::optional<std::uint64_t>& left_out, std::string_view what, std::string& text) {
  if (left_out && *left_out > 0) {
    text += fmt::format(" ({} earlier {} were not recorded)", *left_out, what);
  }
  return left_out.has_value();
}

}  // namespace

std::optional<std::uint64_t> AuditRateLimiter::try_record(const std::string& person, int limit,
                                                          TimePoint now) {
  if (now - minute_began_at_ >= std::chrono::minutes(1)) {
    minute_began_at_ = now;
    // Entries dropped from the shared count are reported with the next entry of any person.
    if (const auto shared = counts_by_group_.extract(std::string()))
      carried_dropped_ += shared.mapped().dropped;
    // A person with dropped entries stays for one more minute, so that their number can still be
    // recorded.
    std::erase_if(counts_by_group_, [](const auto& one) {
      return one.second.dropped == 0 || one.second.recorded == 0;
    });
    for (auto& [name, minute] : counts_by_group_) minute.recorded = 0;
  }
  const bool alone = counts_by_group_.size() < max_groups_ || counts_by_group_.contains(person);
  EntryCounts& minute = counts_by_group_[alone ? person : std::string()];
  if (minute.recorded >= (alone ? limit : std::min(limit, shared_limit_))) {
    ++minute.dropped;
    return std::nullopt;
  }
  ++minute.recorded;
  return std::exchange(minute.dropped, 0) + std::exchange(carried_dropped_, 0);
}

void AuditTrail::record_change(const DeviceInfo& gpu, const QueuedChange& order,
                               const ChangeResult& change, TimePoint began) {
  AuditEntry entry;
  if (change.error) entry.error = audit_text(*change.error);
  if (entry.error && !admit_refusal(order.requester, *entry.error)) return;
  entry.source = source_of(order.requester);
  entry.action = text_of(order.task);
  entry.gpu = gpu.id;
  entry.index = gpu.index;
  entry.before = setting_text(change.before);
  entry.after = setting_text(change.after);
  entry.outcome = enum_name(change.outcome);
  entry.forced = order.force;
  entry.took = loop_.now() - began;
  save(order.requester, std::move(entry));
}

void AuditTrail::record_refusal(const ChangeRequester& asker, const std::string& action,
                                const Error& why) {
  AuditEntry entry;
  entry.error = audit_text(why);
  if (!admit_refusal(asker, *entry.error)) return;
  entry.source = source_of_refusal(asker);
  entry.action = action;
  entry.outcome = AuditEntry::kRefused;
  save(asker, std::move(entry));
}

void AuditTrail::record_action(const ChangeRequester& asker, const AuditedAction& deed) {
  AuditEntry entry;
  entry.action = deed.action;
  truncate_text(entry.action);
  if (!admit_action(asker, entry.action)) return;
  entry.source = source_of(asker);
  entry.gpu = deed.gpu;
  entry.index = deed.index;
  entry.forced = deed.forced;
  entry.outcome = AuditEntry::kDone;
  if (asker.received != TimePoint{}) entry.took = loop_.now() - asker.received;
  save(asker, std::move(entry));
}

bool AuditTrail::admit_refusal(const ChangeRequester& asker, std::string& text) {
  if (asker.admin) return true;
  AuditRateLimiter& counts = asker.over_tcp ? refusals_by_address_ : refusals_;
  return admit(counts.try_record(asker.quota_group(), kMaxRefusalsPerMinute, loop_.now()),
               "refusals", text);
}

bool AuditTrail::admit_action(const ChangeRequester& asker, std::string& text) {
  if (asker.admin) return true;
  const int limit = asker.member ? kMaxActionsPerMinute : kMaxRefusalsPerMinute;
  return admit(actions_.try_record(asker.quota_group(), limit, loop_.now()), "entries", text);
}

void AuditTrail::save(const ChangeRequester& asker, AuditEntry entry) {
  entry.at = loop_.wall();
  entry.by = asker.name();
  entry.request_id = asker.request_id;
  entry.quota_group = asker.quota_group();
  for (std::string* text : {&entry.by, &entry.request_id, &entry.action, &entry.quota_group}) {
    truncate_text(*text);
  }
  if (entry.error) truncate_text(*entry.error);
  const std::string line = fmt::format("{} by {}: {}", entry.action, entry.by, entry.outcome);
  ControlTransaction kept;
  kept.audit = std::move(entry);
  kept.requester = asker.queue_requester();
  const auto lost = [line, lost = loss_log_, &loop = loop_] {
    lost->write(log::Level::error, loop.now(),
                fmt::format("audit entry could not be stored: {}", line));
  };
  const bool taken =
      storage_.save(std::move(kept), CommitTiming::soon, [lost](const Result<void>& done) {
        if (!done) lost();
      });
  if (!taken) lost();
}

}  // namespace gpuyard::control
