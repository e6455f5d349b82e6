// The files of a process's directory in /proc, as far as more than one reader looks at them. Every
// call may block, and is for a worker's thread. errno's meaning there: Errc::not_found, the process
// is gone; Errc::denied, it is hidden from this user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/boot.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::processes {

inline constexpr std::size_t kMostCommandBytes = 64;  // the kernel's own threads have more than 15

// The directory, which is one process's and nobody else's, even when the number is given anew.
Result<UniqueFd> open_process(const std::string& proc_root, std::uint32_t pid);

// What the file, named from `directory` on, begins with: at most `most` bytes.
Result<std::string> beginning_of(const UniqueFd& directory, const char* name, std::size_t most);

// `name`: "stat" in the process's directory, "7/stat" in /proc.
Result<ProcessStat> read_stat(const UniqueFd& directory, const char* name = "stat");
Result<TimePoint> start_of(const ProcessStat&);
Result<std::string> read_status(const UniqueFd& process);
Result<std::string> read_cgroup(const UniqueFd& process);

struct Owner {
  std::uint32_t real = 0;
  std::uint32_t effective = 0;
  std::uint32_t saved = 0;
};

// These take the text of a status file.
std::optional<Owner> owner_in(std::string_view status);
// Whether it is the first process of a PID namespace below this one, as a container's first is.
bool leads_pid_namespace(std::string_view status);

}  // namespace gpuyard::processes
