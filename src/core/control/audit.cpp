#include "control/audit.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/record.h"

namespace gpuyard::control {
namespace {

constexpr std::size_t kMostText = 512;

std::optional<std::string> words(const std::optional<Setting>& setting) {
  return setting ? std::optional(text_of(*setting)) : std::nullopt;
}

AuditEntry::Source source_of(const Asker& asker) {
  if (asker.admin && asker.owner != kOurselves) return AuditEntry::Source::administrator;
  return asker.owner.starts_with("lease:") ? AuditEntry::Source::lease : AuditEntry::Source::user;
}

}  // namespace

void AuditTrail::note(const DeviceInfo& gpu, const PendingChange& order, const Change& change,
                      TimePoint began) {
  AuditEntry entry;
  if (change.error) entry.error = change.error->message;
  if (entry.error && !order.asker.admin && !admit(order.asker, *entry.error)) return;
  entry.source = source_of(order.asker);
  entry.by = order.asker.name();
  entry.request_id = order.asker.request_id;
  entry.action = text_of(order.job);
  entry.gpu = gpu.id;
  entry.index = gpu.index;
  entry.before = words(change.before);
  entry.after = words(change.after);
  entry.outcome = enum_name(change.outcome);
  entry.forced = order.force;
  entry.took = loop_.now() - began;
  save(std::move(entry));
}

void AuditTrail::note_refusal(const Asker& asker, const std::string& action, const Error& why) {
  AuditEntry entry;
  entry.error = why.message;
  if (!asker.admin && !admit(asker, *entry.error)) return;
  entry.source = asker.admin      ? AuditEntry::Source::administrator
                 : asker.over_tcp ? AuditEntry::Source::refused_over_tcp
                                  : AuditEntry::Source::refused;
  entry.by = asker.name();
  entry.request_id = asker.request_id;
  entry.action = action;
  entry.outcome = AuditEntry::kRefused;
  save(std::move(entry));
}

void AuditTrail::note_done(const Asker& asker, const std::string& action) {
  AuditEntry entry;
  entry.source = source_of(asker);
  entry.by = asker.name();
  entry.request_id = asker.request_id;
  entry.action = action;
  entry.outcome = AuditEntry::kDone;
  save(std::move(entry));
}

bool AuditTrail::admit(const Asker& asker, std::string& error) {
  const TimePoint now = loop_.now();
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    // A user with left-out refusals stays for one more minute, so that their number is recorded.
    std::erase_if(persons_, [](const auto& one) {
      return one.second.left_out == 0 || one.second.noted == 0;
    });
    for (auto& [person, minute] : persons_) minute.noted = 0;
  }
  const bool room = persons_.size() < kMostPersons || persons_.contains(asker.counted());
  Minute& minute = persons_[room ? asker.counted() : std::string()];
  if (minute.noted == kRefusals) {
    ++minute.left_out;
    return false;
  }
  ++minute.noted;
  if (const auto left_out = std::exchange(minute.left_out, 0); left_out > 0) {
    error += fmt::format(" (and {} refusals before, which are not noted)", left_out);
  }
  return true;
}

void AuditTrail::save(AuditEntry entry) {
  entry.at = loop_.wall();
  for (std::string* text : {&entry.by, &entry.request_id, &entry.action}) {
    if (text->size() > kMostText) text->resize(kMostText);
  }
  if (entry.error && entry.error->size() > kMostText) entry.error->resize(kMostText);
  const std::string line = fmt::format("{} by {}: {}", entry.action, entry.by, entry.outcome);
  ControlEntry kept;
  kept.audit = std::move(entry);
  const auto lost = [line] { log::error("the audit could not be kept: {}", line); };
  const bool taken = archive_.save(std::move(kept), When::soon, [lost](const Result<void>& done) {
    if (!done) lost();
  });
  if (!taken) lost();
}

}  // namespace gpuyard::control
