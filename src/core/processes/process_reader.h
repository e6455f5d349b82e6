// Reads what /proc says of a process on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/processes/group_makers.h"
#include "core/processes/proc_files.h"
#include "gpu/device/process.h"

namespace gpuyard::processes {

// The most bytes of a process's arguments that are returned; the last argument then ends with "…".
// A process may have megabytes of them.
inline constexpr std::size_t kMaxArgumentBytes = 4096;

// The facts of a process that cost least to read: one file.
struct StatSummary {
  TimePoint started;
  std::string command;
  HostUse use = {};

  // Whether both are of one process, and of one program in it.
  bool matches(const StatSummary& other) const {
    return started == other.started && command == other.command;
  }
};

// Every text becomes valid UTF-8. Thread: any, but each call may block on /proc.
class ProcessReader {
 public:
  // `proc_root`: the mount of the /proc with the driver's process numbers.
  explicit ProcessReader(std::string proc_root = std::string(kProcRoot),
                         MakerLookup maker_of = GroupMakers::of_this_machine())
      : proc_root_(std::move(proc_root)), maker_of_(std::move(maker_of)) {}

  // Errc::not_found: no such process is visible there; Errc::denied: it is hidden.
  Result<StatSummary> read_stat_summary(std::uint32_t pid) const;

  // Reads all facts but the user's name. They are of one process, even if its number is reused
  // meanwhile. Errors as above.
  Result<ProcessMetadata> read(std::uint32_t pid) const;

  const std::string& proc_root() const { return proc_root_; }

 private:
  std::string proc_root_;
  MakerLookup maker_of_;
};

// Splits the beginning of /proc/<pid>/cmdline into arguments; `cut`: the file went on.
std::vector<std::string> arguments_of(std::string_view bytes, bool cut);

}  // namespace gpuyard::processes
