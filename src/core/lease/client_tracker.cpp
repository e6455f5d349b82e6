#include "core/lease/client_tracker.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuyard::lease {

Subscription ClientTracker::mark_present(const std::string& lease, PresenceKind how) {
  acknowledge_grant(lease);
  ClientPresence& seat = presences_[lease];
  ++(how == PresenceKind::stream ? seat.streams : seat.polls);
  if (how == PresenceKind::stream) seat.last_stream_left_at.reset();
  return Subscription(lifetime_.guard([this, lease, how] { mark_absent(lease, how); }));
}

void ClientTracker::mark_absent(const std::string& lease, PresenceKind how) {
  const auto found = presences_.find(lease);
  if (found == presences_.end()) return;  // the lease was over before
  ClientPresence& seat = found->second;
  unsigned& there = how == PresenceKind::stream ? seat.streams : seat.polls;
  if (there > 0) --there;
  seat.last_left_at = loop_.now();
  if (how == PresenceKind::stream) seat.last_stream_left_at = loop_.now();
}

std::optional<TimePoint> ClientTracker::away_since(const std::string& lease,
                                                   TimePoint since) const {
  const auto found = presences_.find(lease);
  if (found == presences_.end()) return since;
  const ClientPresence& seat = found->second;
  if (seat.polls + seat.streams > 0) return std::nullopt;
  return std::max(seat.last_left_at.value_or(since), since);
}

std::optional<TimePoint> ClientTracker::stream_gone_since(const std::string& lease) const {
  const auto found = presences_.find(lease);
  if (found == presences_.end() || found->second.streams + found->second.polls > 0) {
    return std::nullopt;
  }
  return found->second.last_stream_left_at;
}

// A client that is present learns of the grant by its watch or, after this, by the answer to its
// call.
void ClientTracker::record_grant(const Lease& lease) {
  if (away_since(lease.id, lease.requested_at)) unacknowledged_.insert(lease.id);
}

Subscription ClientTracker::subscribe(const std::string& lease,
                                      std::function<void(const Lease&)> told) {
  const std::uint64_t number = ++last_subscriber_;
  subscribers_[lease].emplace(number, std::move(told));
  return Subscription(lifetime_.guard([this, lease, number] {
    const auto found = subscribers_.find(lease);
    if (found == subscribers_.end()) return;
    found->second.erase(number);
    if (found->second.empty()) subscribers_.erase(found);
  }));
}

// A listener may remove itself and other listeners while they are told.
void ClientTracker::notify(const Lease& now) {
  const auto found = subscribers_.find(now.id);
  if (found == subscribers_.end()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, told] : found->second) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto here = subscribers_.find(now.id);
    if (here == subscribers_.end()) return;
    const auto listener = here->second.find(number);
    if (listener == here->second.end()) continue;
    const auto told = listener->second;
    told(now);
  }
}

void ClientTracker::remove(const std::string& lease) {
  presences_.erase(lease);
  unacknowledged_.erase(lease);
}

}  // namespace gpuyard::lease
