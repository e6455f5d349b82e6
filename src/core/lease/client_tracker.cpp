#include "core/lease/client_tracker.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuyard::lease {

Subscription ClientTracker::mark_present(const std::string& lease, PresenceKind kind) {
  acknowledge_grant(lease);
  ClientPresence& presence = presences_[lease];
  ++(kind == PresenceKind::stream ? presence.streams : presence.polls);
  if (kind == PresenceKind::stream) presence.last_stream_left_at.reset();
  return Subscription(lifetime_.guard([this, lease, kind] { mark_absent(lease, kind); }));
}

void ClientTracker::mark_absent(const std::string& lease, PresenceKind kind) {
  const auto found = presences_.find(lease);
  if (found == presences_.end()) return;  // the lease ended before
  ClientPresence& presence = found->second;
  unsigned& count = kind == PresenceKind::stream ? presence.streams : presence.polls;
  if (count > 0) --count;
  presence.last_left_at = loop_.now();
  if (kind == PresenceKind::stream) presence.last_stream_left_at = loop_.now();
}

std::optional<TimePoint> ClientTracker::away_since(const std::string& lease,
                                                   TimePoint since) const {
  const auto found = presences_.find(lease);
  if (found == presences_.end()) return since;
  const ClientPresence& presence = found->second;
  if (presence.polls + presence.streams > 0) return std::nullopt;
  return std::max(presence.last_left_at.value_or(since), since);
}

std::optional<TimePoint> ClientTracker::stream_gone_since(const std::string& lease) const {
  const auto found = presences_.find(lease);
  if (found == presences_.end() || found->second.streams + found->second.polls > 0) {
    return std::nullopt;
  }
  return found->second.last_stream_left_at;
}

// A client that is present learns of the grant by its subscription or, after this, by the reply to
// its call.
void ClientTracker::record_grant(const Lease& lease) {
  if (away_since(lease.id, lease.requested_at)) unacknowledged_.insert(lease.id);
}

Subscription ClientTracker::subscribe(const std::string& lease,
                                      std::function<void(const Lease&)> on_change) {
  const std::uint64_t number = ++last_subscriber_;
  subscribers_[lease].emplace(number, std::move(on_change));
  return Subscription(lifetime_.guard([this, lease, number] {
    const auto found = subscribers_.find(lease);
    if (found == subscribers_.end()) return;
    found->second.erase(number);
    if (found->second.empty()) subscribers_.erase(found);
  }));
}

// A subscriber may remove itself and other subscribers while they are notified.
void ClientTracker::notify(const Lease& now) {
  const auto found = subscribers_.find(now.id);
  if (found == subscribers_.end()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, on_change] : found->second) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto subscribers = subscribers_.find(now.id);
    if (subscribers == subscribers_.end()) return;
    const auto subscriber = subscribers->second.find(number);
    if (subscriber == subscribers->second.end()) continue;
    const auto on_change = subscriber->second;
    on_change(now);
  }
}

void ClientTracker::remove(const std::string& lease) {
  presences_.erase(lease);
  unacknowledged_.erase(lease);
}

}  // namespace gpuyard::lease
