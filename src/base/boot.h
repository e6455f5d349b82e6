// Who this boot and this process are, beyond a number the kernel may reuse.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpuyard {

// /proc/sys/kernel/random/boot_id, "" where there is none.
std::string boot_id();

// Start time of a process in clock ticks since boot (/proc/<pid>/stat, field 22): together with the
// pid it names one process for ever. Empty if there is no such process.
std::optional<std::uint64_t> process_start_time(pid_t);

}  // namespace gpuyard
