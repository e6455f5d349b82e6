#include "core/control/audit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/record.h"

namespace gpuyard::control {
namespace {

constexpr std::size_t kMostText = 512;

std::optional<std::string> words(const std::optional<Setting>& setting) {
  return setting ? std::optional(text_of(*setting)) : std::nullopt;
}

// Message and cause: the audit log does not store hints.
std::string what_happened(Error why) {
  why.hint.clear();
  return why.text();
}

AuditEntry::Source source_of(const Asker& asker) {
  using Source = AuditEntry::Source;
  if (asker.ours) return Source::gpuyard;
  if (asker.admin) return Source::administrator;
  if (asker.owner.starts_with("lease:")) return Source::lease;
  return asker.member ? Source::user : Source::ordinary;
}

AuditEntry::Source source_of_refusal(const Asker& asker) {
  using Source = AuditEntry::Source;
  if (asker.admin || asker.ours) return Source::administrator;
  if (asker.over_tcp) return Source::refused_over_tcp;
  return asker.member ? Source::user : Source::refused;
}

// Cuts the text to kMostText bytes, between two characters.
void cut(std::string& text) {
  if (text.size() <= kMostText) return;
  std::size_t end = kMostText;
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

std::optional<std::uint64_t> EntriesOfEach::take(const std::string& person, int limit,
                                                 TimePoint now) {
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    // Entries dropped from the shared count are reported with the next entry of any person.
    if (const auto shared = persons_.extract(std::string())) carried_ += shared.mapped().left_out;
    // A person with dropped entries stays for one more minute, so that their number can still be
    // recorded.
    std::erase_if(persons_, [](const auto& one) {
      return one.second.left_out == 0 || one.second.noted == 0;
    });
    for (auto& [name, minute] : persons_) minute.noted = 0;
  }
  const bool alone = persons_.size() < most_ || persons_.contains(person);
  Minute& minute = persons_[alone ? person : std::string()];
  if (minute.noted >= (alone ? limit : std::min(limit, shared_))) {
    ++minute.left_out;
    return std::nullopt;
  }
  ++minute.noted;
  return std::exchange(minute.left_out, 0) + std::exchange(carried_, 0);
}

void AuditTrail::note(const DeviceInfo& gpu, const QueuedChange& order, const Change& change,
                      TimePoint began) {
  AuditEntry entry;
  if (change.error) entry.error = what_happened(*change.error);
  if (entry.error && !admit_refusal(order.asker, *entry.error)) return;
  entry.source = source_of(order.asker);
  entry.action = text_of(order.job);
  entry.gpu = gpu.id;
  entry.index = gpu.index;
  entry.before = words(change.before);
  entry.after = words(change.after);
  entry.outcome = enum_name(change.outcome);
  entry.forced = order.force;
  entry.took = loop_.now() - began;
  save(order.asker, std::move(entry));
}

void AuditTrail::note_refusal(const Asker& asker, const std::string& action, const Error& why) {
  AuditEntry entry;
  entry.error = what_happened(why);
  if (!admit_refusal(asker, *entry.error)) return;
  entry.source = source_of_refusal(asker);
  entry.action = action;
  entry.outcome = AuditEntry::kRefused;
  save(asker, std::move(entry));
}

void AuditTrail::note_done(const Asker& asker, const Deed& deed) {
  AuditEntry entry;
  entry.action = deed.action;
  cut(entry.action);
  if (!admit_deed(asker, entry.action)) return;
  entry.source = source_of(asker);
  entry.gpu = deed.gpu;
  entry.index = deed.index;
  entry.forced = deed.forced;
  entry.outcome = AuditEntry::kDone;
  if (asker.received != TimePoint{}) entry.took = loop_.now() - asker.received;
  save(asker, std::move(entry));
}

bool AuditTrail::admit_refusal(const Asker& asker, std::string& text) {
  if (asker.admin) return true;
  EntriesOfEach& counts = asker.over_tcp ? refusals_by_address_ : refusals_;
  return admit(counts.take(asker.counted(), kRefusals, loop_.now()), "refusals", text);
}

bool AuditTrail::admit_deed(const Asker& asker, std::string& text) {
  if (asker.admin) return true;
  const int limit = asker.member ? kMembersDeeds : kRefusals;
  return admit(deeds_.take(asker.counted(), limit, loop_.now()), "entries", text);
}

void AuditTrail::save(const Asker& asker, AuditEntry entry) {
  entry.at = loop_.wall();
  entry.by = asker.name();
  entry.request_id = asker.request_id;
  entry.person = asker.counted();
  for (std::string* text : {&entry.by, &entry.request_id, &entry.action, &entry.person}) {
    cut(*text);
  }
  if (entry.error) cut(*entry.error);
  const std::string line = fmt::format("{} by {}: {}", entry.action, entry.by, entry.outcome);
  ControlTransaction kept;
  kept.audit = std::move(entry);
  kept.requester = asker.requester();
  const auto lost = [line, lost = lost_, &loop = loop_] {
    lost->write(log::Level::error, loop.now(),
                fmt::format("audit entry could not be stored: {}", line));
  };
  const bool taken = archive_.save(std::move(kept), When::soon, [lost](const Result<void>& done) {
    if (!done) lost();
  });
  if (!taken) lost();
}

}  // namespace gpuyard::control
