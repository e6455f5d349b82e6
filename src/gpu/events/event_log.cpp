#include "gpu/events/event_log.h"

#include <algorithm>
#include <utility>

#include "base/identifiers.h"

namespace gpuyard::events {

EventLog::EventLog() : epoch_(new_id()) {}

const Event& EventLog::add(Event event) {
  event.sequence = ++last_sequence_;
  if (event.text.size() > kMaxTextBytes) event.text.resize(kMaxTextBytes);
  if (events_.size() == kMaxEvents) events_.pop_front();
  events_.push_back(std::move(event));
  listener_(events_.back());
  return events_.back();
}

bool EventLog::contains_since(std::uint64_t sequence) const {
  return sequence <= last_sequence_ && last_sequence_ - sequence <= events_.size();
}

std::deque<Event>::const_iterator EventLog::first_after(std::uint64_t sequence) const {
  const std::uint64_t after = last_sequence_ - std::min(sequence, last_sequence_);
  const std::size_t wanted = std::min<std::uint64_t>(after, events_.size());
  return events_.end() - static_cast<std::ptrdiff_t>(wanted);
}

}  // namespace gpuyard::events
