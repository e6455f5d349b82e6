// Two clocks. Deadlines, ages and intervals use BootClock, which counts through suspend and never
// steps; WallTime is only ever shown to people.
#pragma once

#include <sys/types.h>

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

// "2026-01-31T12:00:00.250Z"
std::string to_rfc3339(WallTime);

inline std::int64_t to_milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

constexpr double to_seconds(std::chrono::duration<double> duration) {
  return duration.count();
}

// Who this boot and this process are, beyond a number the kernel may reuse.

// /proc/sys/kernel/random/boot_id, "" where there is none.
std::string boot_id();

// Start time of a process in clock ticks since boot (/proc/<pid>/stat, field 22): together with the
// pid it names one process for ever. Empty if there is no such process.
std::optional<std::uint64_t> process_start_time(pid_t);

// What /proc/<pid>/stat says, as far as we look at it.
struct ProcessStat {
  std::string command;  // its own bytes, not to be trusted
  char state = '?';     // 'R', 'S', 'D' (waits inside the kernel), 'Z' (ended), ...
  std::uint32_t parent = 0;
  std::uint32_t threads = 0;
  std::uint64_t start_ticks = 0;
  // It has memory and no environment in it: the kernel is about to run its program. Of a process
  // whose memory is hidden this says nothing.
  bool loading = false;
};

// Empty for what is not the text of such a file.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

// What this machine calls itself.

// "" if it does not say.
std::string host_name();

// A name for what people and programs refer to later. Nobody meets another's by chance, also not in
// the books of another state directory.
std::string new_id();

}  // namespace gpuyard
