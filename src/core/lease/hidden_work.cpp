#include "core/lease/hidden_work.h"

#include <algorithm>

namespace gpuyard::lease {

void HiddenWork::update(const Activity& reading) {
  if (last_reading_at_ && reading.taken_at <= *last_reading_at_) return;
  const bool first = !last_reading_at_;
  last_reading_at_ = reading.taken_at;
  if (reading.busy) {
    busy_readings_ = first ? kMinBusyReadings : std::min(busy_readings_ + 1, kMinBusyReadings);
    last_busy_at_ = reading.taken_at;
    text_ = reading.text;
  } else if (busy_readings_ < kMinBusyReadings ||
             reading.taken_at - last_busy_at_ >= kIdleTimeout) {
    busy_readings_ = 0;
  }
}

void HiddenWork::mark_accounted() {
  busy_readings_ = 0;
  last_reading_at_ = last_reading_at_.value_or(TimePoint::min());
}

std::optional<std::string> HiddenWork::evidence() const {
  return busy_readings_ >= kMinBusyReadings ? std::optional(text_) : std::nullopt;
}

}  // namespace gpuyard::lease
