// Times as people read and write them: in the time zone of this process (TZ), unless they name
// another.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpuyard {

// "2026-01-31 14:05" or "2026-01-31 14:05:12", in local time.
enum class TimeDetail { minute, second };
std::string local_time(WallTime, TimeDetail);
// In another form, of at most 63 bytes, as strftime() takes it.
std::string format_local(WallTime, const char* format);

// The local time zone as it is called at that time: "UTC", "JST", "CEST"; "UTC-03" where it has
// only a number.
std::string zone_name(WallTime);

// "SINCE (JST)": the heading of a column of local times.
std::string heading_with_zone(std::string_view heading, WallTime);

// Reads a moment in each form that we print:
//   2026-01-31T12:00:00.250Z, 2026-01-31 12:00, 2026-01-31, 2026/01/31 12:00:00.250
//   02:10 and 02:10:05: the last time that the clock showed this
//   01-31 12:00: the last time that the calendar showed this
// Z, UTC, +09:00, +0900 or +09 may follow a time that has a whole date. Without one, the time is
// local. Returns nothing for any other text.
std::optional<WallTime> parse_time(std::string_view text, WallTime now);

}  // namespace gpuyard
