#include "core/andon/sliding_windows.h"

namespace gpuyard::andon {

void EventWindow::add(TimePoint at, std::optional<std::uint32_t> xid, std::string text) {
  if (times_.size() == kMaxEvents) times_.pop_front();
  times_.push_back(at);
  if (!xid) return;
  last_xid_ = xid;
  last_text_ = std::move(text);
}

double EventWindow::count(Duration over, TimePoint now) {
  while (!times_.empty() && now - times_.front() >= over) times_.pop_front();
  return static_cast<double>(times_.size());
}

std::optional<double> CounterWindow::add(double counter, Duration over, TimePoint now) {
  const bool back =
      !points_.empty() && (counter < points_.back().counter || now < points_.back().at);
  if (back) points_.clear();
  // The oldest point that stays is the newest one that is at least `over` old.
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
