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

AuditEntry::Source source_of(const ChangeRequester& requester) {
  using Source = AuditEntry::Source;
  if (requester.internal) return Source::gpuyard;
  if (requester.admin) return Source::administrator;
  if (requester.owner.starts_with("lease:")) return Source::lease;
  return requester.member ? Source::user : Source::ordinary;
}

AuditEntry::Source source_of_refusal(const ChangeRequester& requester) {
  using Source = AuditEntry::Source;
  if (requester.admin || requester.internal) return Source::administrator;
  if (requester.over_tcp) return Source::refused_over_tcp;
  return requester.member ? Source::user : Source::refused;
}

// Cuts the text to kMaxTextBytes bytes, between two characters.
void truncate_text(std::string& text) {
  if (text.size() <= kMaxTextBytes) return;
  std::size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
}

// Returns false if the entry is dropped; otherwise adds the number of earlier ones that were.
bool admit(const std::optional<std::uint64_t>& dropped, std::string_view what, std::string& text) {
  if (dropped && *dropped > 0) {
    text += fmt::format(" ({} earlier {} were not recorded)", *dropped, what);
  }
  return dropped.has_value();
}

}  // namespace

std::optional<std::uint64_t> AuditRateLimiter::try_record(const std::string& group, int limit,
                                                          TimePoint now) {
  if (now - minute_began_at_ >= std::chrono::minutes(1)) {
    minute_began_at_ = now;
    // Entries dropped from the shared count are reported with the next entry of any group.
    if (const auto shared = counts_by_group_.extract(std::string()))
      carried_dropped_ += shared.mapped().dropped;
    // A group with dropped entries stays for one more minute, so that their number can still be
    // recorded.
    std::erase_if(counts_by_group_, [](const auto& one) {
      return one.second.dropped == 0 || one.second.recorded == 0;
    });
    for (auto& [name, counts] : counts_by_group_) counts.recorded = 0;
  }
  const bool has_own_count =
      counts_by_group_.size() < max_groups_ || counts_by_group_.contains(group);
  EntryCounts& counts = counts_by_group_[has_own_count ? group : std::string()];
  if (counts.recorded >= (has_own_count ? limit : std::min(limit, shared_limit_))) {
    ++counts.dropped;
    return std::nullopt;
  }
  ++counts.recorded;
  return std::exchange(counts.dropped, 0) + std::exchange(carried_dropped_, 0);
}

void AuditTrail::record_change(const DeviceInfo& gpu, const QueuedChange& queued_change,
                               const ChangeResult& result, TimePoint started_at) {
  AuditEntry entry;
  if (result.error) entry.error = audit_text(*result.error);
  if (entry.error && !admit_refusal(queued_change.requester, *entry.error)) return;
  entry.source = source_of(queued_change.requester);
  entry.action = text_of(queued_change.task);
  entry.gpu = gpu.id;
  entry.index = gpu.index;
  entry.before = setting_text(result.before);
  entry.after = setting_text(result.after);
  entry.outcome = enum_name(result.outcome);
  entry.forced = queued_change.force;
  entry.took = loop_.now() - started_at;
  save(queued_change.requester, std::move(entry));
}

void AuditTrail::record_refusal(const ChangeRequester& requester, const std::string& action,
                                const Error& why) {
  AuditEntry entry;
  entry.error = audit_text(why);
  if (!admit_refusal(requester, *entry.error)) return;
  entry.source = source_of_refusal(requester);
  entry.action = action;
  entry.outcome = AuditEntry::kRefused;
  save(requester, std::move(entry));
}

void AuditTrail::record_action(const ChangeRequester& requester, const AuditedAction& action) {
  AuditEntry entry;
  entry.action = action.action;
  truncate_text(entry.action);
  if (!admit_action(requester, entry.action)) return;
  entry.source = source_of(requester);
  entry.gpu = action.gpu;
  entry.index = action.index;
  entry.forced = action.forced;
  entry.outcome = AuditEntry::kDone;
  if (requester.received != TimePoint{}) entry.took = loop_.now() - requester.received;
  save(requester, std::move(entry));
}

bool AuditTrail::admit_refusal(const ChangeRequester& requester, std::string& text) {
  if (requester.admin) return true;
  AuditRateLimiter& limiter = requester.over_tcp ? refusals_by_address_ : refusals_;
  return admit(limiter.try_record(requester.quota_group(), kMaxRefusalsPerMinute, loop_.now()),
               "refusals", text);
}

bool AuditTrail::admit_action(const ChangeRequester& requester, std::string& text) {
  if (requester.admin) return true;
  const int limit = requester.member ? kMaxActionsPerMinute : kMaxRefusalsPerMinute;
  return admit(actions_.try_record(requester.quota_group(), limit, loop_.now()), "entries", text);
}

void AuditTrail::save(const ChangeRequester& requester, AuditEntry entry) {
  entry.at = loop_.wall();
  entry.by = requester.name();
  entry.request_id = requester.request_id;
  entry.quota_group = requester.quota_group();
  for (std::string* text : {&entry.by, &entry.request_id, &entry.action, &entry.quota_group}) {
    truncate_text(*text);
  }
  if (entry.error) truncate_text(*entry.error);
  const std::string line = fmt::format("{} by {}: {}", entry.action, entry.by, entry.outcome);
  ControlTransaction transaction;
  transaction.audit = std::move(entry);
  transaction.requester = requester.queue_requester();
  const auto log_loss = [line, loss_log = loss_log_, &loop = loop_] {
    loss_log->write(log::Level::error, loop.now(),
                    fmt::format("audit entry could not be stored: {}", line));
  };
  const bool accepted = storage_.save(std::move(transaction), CommitTiming::soon,
                                      [log_loss](const Result<void>& done) {
                                        if (!done) log_loss();
                                      });
  if (!accepted) log_loss();
}

}  // namespace gpuyard::control
