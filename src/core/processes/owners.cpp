#include "processes/owners.h"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace gpuyard::processes {

void Owners::listed(const Listed& newest) {
  const auto gone = [&](const auto& entry) { return !newest.contains(entry.first); };
  if (std::erase_if(entries_, gone) > 0) ++revision_;
  for (const auto& [pid, when] : newest) {
    const auto known = entries_.find(pid);
    if (known != entries_.end()) {
      known->second.listed = when;
    } else if (entries_.size() < kMost) {
      entries_.try_emplace(pid, Entry{when, when});
    }
  }
}

std::vector<Question> Owners::questions() const {
  std::vector<Question> questions;
  for (const auto& [pid, entry] : entries_) {
    Question question{pid, {}};
    const bool trusted = entry.facts && entry.listed - entry.looked_at < kTrustedFor;
    const auto busy = [](const ProcessFacts& facts) {
      return !facts.arguments && facts.arguments.error().code == Errc::busy;
    };
    if (trusted && !busy(*entry.facts)) {
      question.known = Glance{entry.facts->started, entry.facts->command};
    }
    questions.push_back(std::move(question));
  }
  return questions;
}

void Owners::found(std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    const auto entry = entries_.find(finding.pid);
    if (!finding.facts || entry == entries_.end()) continue;
    take(entry->second, *std::move(finding.facts));
    ++revision_;
  }
}

// A process that has ended is still the one that the list speaks of, until a newer list comes. One
// that started after the list was made never is.
void Owners::take(Entry& entry, Result<ProcessFacts> facts) {
  if (facts && facts->started > entry.listed) {
    facts = Error{Errc::conflict, "its process has ended, and the number is another's now"};
  }
  if (!facts && entry.facts) return;
  if (facts && entry.facts && facts->started == entry.facts->started) {
    facts->started_at = entry.facts->started_at;
    if (facts->uid == entry.facts->uid) facts->user = entry.facts->user;
  }
  entry.facts = std::move(facts);
  entry.looked_at = entry.listed;
}

std::vector<std::uint32_t> Owners::nameless_users() const {
  std::set<std::uint32_t> users;
  for (const auto& [pid, entry] : entries_) {
    if (entry.facts && !entry.facts->user) users.insert(entry.facts->uid);
  }
  return {users.begin(), users.end()};
}

void Owners::named(std::uint32_t uid, const Result<std::string>& name) {
  for (auto& [pid, entry] : entries_) {
    if (!entry.facts || entry.facts->uid != uid) continue;
    entry.facts->user = name;
    ++revision_;
  }
}

Result<const ProcessFacts*> Owners::find(std::uint32_t pid) const {
  const auto entry = entries_.find(pid);
  if (entry != entries_.end()) {
    if (!entry->second.facts) return entry->second.facts.error();
    return &*entry->second.facts;
  }
  if (entries_.size() < kMost) return Error{Errc::unavailable, "not looked up yet"};
  return Error{Errc::busy,
               fmt::format("not looked up: only {} listed processes are at a time", kMost)};
}

}  // namespace gpuyard::processes
