#include "andon/window.h"

namespace gpuyard::andon {

void Occurrences::add(TimePoint at, std::optional<std::uint32_t> xid) {
  if (times_.size() == kMost) times_.pop_front();
  times_.push_back(at);
  if (xid) last_xid_ = xid;
}

double Occurrences::count(Duration over, TimePoint now) {
  while (!times_.empty() && now - times_.front() >= over) times_.pop_front();
  return static_cast<double>(times_.size());
}

std::optional<double> Growth::note(double counter, Duration over, TimePoint now) {
  const bool back =
      !points_.empty() && (counter < points_.back().counter || now < points_.back().at);
  if (back) points_.clear();
  // The oldest that is kept is the newest of those that are old enough.
  while (points_.size() > 1 && now - points_[1].at >= over) points_.pop_front();
  const bool first = points_.empty();
  if (points_.size() < 2 || now - points_[points_.size() - 2].at >= over / kParts) {
    points_.push_back({now, counter});
  } else {
    points_.back() = {now, counter};
  }
  if (first) return std::nullopt;
  return counter - points_.front().counter;
}

}  // namespace gpuyard::andon
