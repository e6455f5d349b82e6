// A rate-limited log line, for events that may occur thousands of times a second. Pure state except
// for the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace gpuyard {

class RepeatedLine {
 public:
  // The least time between two lines.
  static constexpr Duration kMinInterval = std::chrono::minutes(1);

  // Counts one occurrence. Returns nothing if it must not be logged; otherwise the number of
  // occurrences suppressed since the last line.
  std::optional<std::uint64_t> admit(TimePoint now) {
    if (last_logged_at_ && now - *last_logged_at_ < kMinInterval) {
      ++suppressed_;
      return std::nullopt;
    }
    last_logged_at_ = now;
    return std::exchange(suppressed_, 0);
  }

  // Logs the text with the number of suppressed occurrences, or only counts it.
  void write(log::Level level, TimePoint now, std::string_view text) {
    const auto left_out = admit(now);
    if (!left_out) return;
    if (*left_out == 0) return log::write(level, text);
    log::write(level, fmt::format("{} (and {} more since this was last logged)", text, *left_out));
  }

 private:
  std::optional<TimePoint> last_logged_at_;
  std::uint64_t suppressed_ = 0;
};

}  // namespace gpuyard
