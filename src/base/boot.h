// Who this boot and this process are, beyond a number the kernel may reuse.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpuyard {

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

}  // namespace gpuyard
