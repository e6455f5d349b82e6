#include "gpu/events/event_log.h"

#include "base/identifiers.h"

namespace gpuyard::events {

EventLog::EventLog() : epoch_(new_id()) {}

Event EventLog::add(Event event) {
  event.sequence = ++last_sequence_;
  if (event.text.size() > kMaxTextBytes) event.text.resize(kMaxTextBytes);
  listener_(event);
  return event;
}

}  // namespace gpuyard::events
