#include "core/lease/client_tracker.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpuyard::lease {

Subscription Clients::attend(const std::string& lease, Attendance how) {
  heard(lease);
  Seat& seat = seats_[lease];
  ++(how == Attendance::stream ? seat.streams : seat.polls);
  if (how == Attendance::stream) seat.last_stream_left.reset();
  return Subscription(here_.guard([this, lease, how] { leave(lease, how); }));
}

void Clients::leave(const std::string& lease, Attendance how) {
  const auto found = seats_.find(lease);
  if (found == seats_.end()) return;  // the lease was over before
  Seat& seat = found->second;
  unsigned& there = how == Attendance::stream ? seat.streams : seat.polls;
  if (there > 0) --there;
  seat.last_left = loop_.now();
  if (how == Attendance::stream) seat.last_stream_left = loop_.now();
}

std::optional<TimePoint> Clients::away_since(const std::string& lease, TimePoint since) const {
  const auto found = seats_.find(lease);
  if (found == seats_.end()) return since;
  const Seat& seat = found->second;
  if (seat.polls + seat.streams > 0) return std::nullopt;
  return std::max(seat.last_left.value_or(since), since);
}

std::optional<TimePoint> Clients::stream_gone_since(const std::string& lease) const {
  const auto found = seats_.find(lease);
  if (found == seats_.end() || found->second.streams + found->second.polls > 0) {
    return std::nullopt;
  }
  return found->second.last_stream_left;
}

// A client that is present learns of the grant by its watch or, after this, by the answer to its
// call.
void Clients::granted(const Lease& lease) {
  if (away_since(lease.id, lease.asked)) unheard_.insert(lease.id);
}

Subscription Clients::watch(const std::string& lease, std::function<void(const Lease&)> told) {
  const std::uint64_t number = ++next_watcher_;
  watchers_[lease].emplace(number, std::move(told));
  return Subscription(here_.guard([this, lease, number] {
    const auto found = watchers_.find(lease);
    if (found == watchers_.end()) return;
    found->second.erase(number);
    if (found->second.empty()) watchers_.erase(found);
  }));
}

// A listener may remove itself and other listeners while they are told.
void Clients::tell(const Lease& now) {
  const auto found = watchers_.find(now.id);
  if (found == watchers_.end()) return;
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, told] : found->second) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto here = watchers_.find(now.id);
    if (here == watchers_.end()) return;
    const auto listener = here->second.find(number);
    if (listener == here->second.end()) continue;
    const auto told = listener->second;
    told(now);
  }
}

void Clients::forget(const std::string& lease) {
  seats_.erase(lease);
  unheard_.erase(lease);
}

}  // namespace gpuyard::lease
