#include "core/lease/hidden_work.h"

#include <algorithm>

namespace gpuyard::lease {

void HiddenWork::note(const Activity& reading) {
  if (last_ && reading.taken <= *last_) return;
  const bool first = !last_;
  last_ = reading.taken;
  if (reading.busy) {
    in_a_row_ = first ? kReadings : std::min(in_a_row_ + 1, kReadings);
    last_busy_ = reading.taken;
    text_ = reading.text;
  } else if (in_a_row_ < kReadings || reading.taken - last_busy_ >= kIdle) {
    in_a_row_ = 0;
  }
}

void HiddenWork::accounted_for() {
  in_a_row_ = 0;
  last_ = last_.value_or(TimePoint::min());
}

std::optional<std::string> HiddenWork::found() const {
  return in_a_row_ >= kReadings ? std::optional(text_) : std::nullopt;
}

}  // namespace gpuyard::lease
