// Identifies this boot, and a process by more than a number, which the kernel may reuse.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuyard {

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

}  // namespace gpuyard
