// Two clocks. Deadlines, ages and intervals use BootClock, which counts through suspend and never
// steps; WallTime is only shown to people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuyard {

// CLOCK_BOOTTIME, which all processes of this boot share: a time point may cross a socket.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

using TimePoint = BootClock::time_point;
using Duration = BootClock::duration;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

WallTime wall_now();

// Milliseconds since 1970.
inline std::int64_t to_unix_ms(WallTime time) {
  return time.time_since_epoch() / std::chrono::milliseconds(1);
}

// "12s", "41m", "3h12", "2d01h": at most six columns below 10,000 days.
std::string short_duration(std::int64_t seconds);

// "2026-01-31T12:00:00.250Z"
std::string to_rfc3339(WallTime);
// Reads that form to the second. Returns nothing for any other text.
std::optional<WallTime> from_rfc3339(std::string_view text);

inline std::int64_t to_milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

constexpr double to_seconds(std::chrono::duration<double> duration) {
  return duration.count();
}

}  // namespace gpuyard
