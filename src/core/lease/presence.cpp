#include "lease/presence.h"

#include <algorithm>

namespace gpuyard::lease {

Subscription Presence::attend(const std::string& lease, Attendance how) {
  Seat& seat = seats_[lease];
  ++(how == Attendance::stream ? seat.streams : seat.polls);
  if (how == Attendance::stream) seat.last_stream_left.reset();
  return Subscription([weak = std::weak_ptr(self_), lease, how] {
    if (const auto self = weak.lock()) (*self)->leave(lease, how);
  });
}

void Presence::leave(const std::string& lease, Attendance how) {
  const auto found = seats_.find(lease);
  if (found == seats_.end()) return;  // the lease was over before
  Seat& seat = found->second;
  unsigned& there = how == Attendance::stream ? seat.streams : seat.polls;
  if (there > 0) --there;
  seat.last_left = loop_.now();
  if (how == Attendance::stream) seat.last_stream_left = loop_.now();
}

std::optional<TimePoint> Presence::away_since(const std::string& lease, TimePoint since) const {
  const auto found = seats_.find(lease);
  if (found == seats_.end()) return since;
  const Seat& seat = found->second;
  if (seat.polls + seat.streams > 0) return std::nullopt;
  return std::max(seat.last_left.value_or(since), since);
}

std::optional<TimePoint> Presence::stream_gone_since(const std::string& lease) const {
  const auto found = seats_.find(lease);
  if (found == seats_.end() || found->second.streams + found->second.polls > 0) {
    return std::nullopt;
  }
  return found->second.last_stream_left;
}

}  // namespace gpuyard::lease
