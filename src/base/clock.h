// Two clocks. Deadlines, ages and intervals use BootClock, which counts through suspend and never
// steps; WallTime is only shown to people.
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

// Identifies this boot and a process by more than a number, which the kernel may reuse.

// Reads /proc/sys/kernel/random/boot_id; "" if there is none.
std::string boot_id();

// Returns the start time of a process in clock ticks since boot (/proc/<pid>/stat, field 22).
// Together with the pid it identifies one process. Empty if there is no such process.
std::optional<std::uint64_t> process_start_time(pid_t);

// The fields of /proc/<pid>/stat that we use.
struct ProcessStat {
  std::string command;  // set by the process; not to be trusted
  char state = '?';     // 'R', 'S', 'D' (waits inside the kernel), 'Z' (ended), ...
  std::uint32_t parent = 0;
  std::uint32_t threads = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t cpu_ticks = 0;  // used so far, by all of its threads, in user and kernel
  std::uint64_t resident_pages = 0;
  // The process has memory but no environment in it: the kernel is about to run its program. Means
  // nothing for a process whose memory is hidden.
  bool loading = false;
};

// Empty if `text` is not the contents of such a file.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

// The name of this machine, and new names.

// Returns "" if the machine has no name.
std::string host_name();

// Returns a new unique name for an object that people and programs refer to later. Two names never
// collide by chance, not even between state directories.
std::string new_id();

}  // namespace gpuyard
