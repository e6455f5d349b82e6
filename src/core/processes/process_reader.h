// What /proc says of one process. Every call reads files there and may block, as /proc may when a
// process waits inside the kernel: it is for a worker's thread, or a program that does nothing
// else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/process_facts.h"

namespace gpuyard::processes {

inline constexpr std::string_view kProcRoot = "/proc";

// A process may have megabytes of arguments; these are told, and the last one told ends with "…".
inline constexpr std::size_t kMostArgumentBytes = 4096;

// What can be seen of a process at the least cost: one file.
struct Glance {
  TimePoint started;
  std::string command;

  friend bool operator==(const Glance&, const Glance&) = default;
};

// Every text becomes valid UTF-8. Any thread may call any member.
class ProcessReader {
 public:
  // `proc_root`: where the /proc is mounted whose process ids the driver uses.
  explicit ProcessReader(std::string proc_root = std::string(kProcRoot));

  // Errc::not_found: no such process is visible there; Errc::denied: it is hidden.
  Result<Glance> glance(std::uint32_t pid) const;

  // All but the user's name. The facts are of one process, whatever becomes of its number while
  // they are read. Errors as above.
  Result<ProcessFacts> read(std::uint32_t pid) const;

  const std::string& proc_root() const { return proc_root_; }

 private:
  std::string proc_root_;
};

// The arguments in what /proc/<pid>/cmdline begins with; `cut` if it went on.
std::vector<std::string> arguments_of(std::string_view bytes, bool cut);

}  // namespace gpuyard::processes
