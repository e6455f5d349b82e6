// The processes that use a GPU, as its driver lists them.
//
// The identity and the control group of a process, beyond its pid. Plain values: src/core/processes
// fills them, and the rooms that show or judge a process ask a ProcessDirectory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device/metric.h"

namespace gpuyard {

enum class ProcessKind : std::uint8_t { compute, graphics, compute_and_graphics };
BOOST_DESCRIBE_ENUM(ProcessKind, compute, graphics, compute_and_graphics)

// A value that the driver does not report is empty, never 0.
struct GpuProcess {
  std::uint32_t pid = 0;  // as the driver sees it; a container may use another pid
  ProcessKind kind = ProcessKind::compute;
  std::optional<std::int64_t> memory_bytes;
  std::optional<std::int64_t> sm_percent;  // of the GPU, since the previous read of the list

  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};
BOOST_DESCRIBE_STRUCT(GpuProcess, (), (pid, kind, memory_bytes, sm_percent))

// The list is cut at this length, users of most memory first; the rows processes_compute and
// processes_graphics count all of them.
inline constexpr std::size_t kMaxListedProcesses = 1024;

struct ProcessList {
  TimePoint taken;  // just before the driver was queried
  std::variant<Missing, std::vector<GpuProcess>> value;

  const std::vector<GpuProcess>* processes() const {
    return std::get_if<std::vector<GpuProcess>>(&value);
  }

  friend bool operator==(const ProcessList&, const ProcessList&) = default;
};
BOOST_DESCRIBE_STRUCT(ProcessList, (), (taken, value))

// Read from the control group. Empty: the process is in none.
struct CgroupInfo {
  std::optional<std::string> container;          // its id, or its name if it has no id
  std::optional<std::string> container_runtime;  // "docker"; empty if the group does not tell
  std::optional<std::string> pod;                // UID of a Kubernetes pod
  std::optional<std::string> slurm_job;
  std::optional<std::string> slurm_step;  // "0", "batch", "extern", "interactive"
  std::optional<std::string> unit;        // systemd's: "ollama.service", "session-3.scope"
  std::optional<std::string> slice;       // systemd's: "user-1000.slice"

  friend bool operator==(const CgroupInfo&, const CgroupInfo&) = default;
};

// The resources of the machine that a process has used, at one reading.
struct HostUse {
  TimePoint at;
  Duration cpu_time{};            // of all its threads, since it started
  std::int64_t memory_bytes = 0;  // resident

  friend bool operator==(const HostUse&, const HostUse&) = default;
};

// Texts are valid UTF-8 of bounded length, but may contain control characters.
struct ProcessMetadata {
  std::uint32_t pid = 0;
  TimePoint started;      // with the pid it identifies one process; exact to 10 ms
  WallTime started_at;    // the same moment, for people
  std::uint32_t uid = 0;  // the effective one
  std::uint32_t real_uid = 0;
  std::string command;  // the kernel's name for it, which it may change: at most 15 bytes
  Result<std::string> user = Error{Errc::unavailable, "its name has not been looked up yet"};
  // Shown to administrators, and to the process's user if the real and effective user are the same.
  Result<std::vector<std::string>> arguments = Error{Errc::unavailable, "not read yet"};
  Result<CgroupInfo> cgroup = Error{Errc::unavailable, "not read yet"};
  HostUse use = {};                        // at the newest reading
  std::optional<double> cpu_percent = {};  // of one core, between the last two readings
};

// Looks up the processes that drivers list.
class ProcessDirectory {
 public:
  virtual ~ProcessDirectory() = default;
  // Finds the process that had this pid when the newest list was made, or says why nothing is known
  // of it; never guesses. The pointer is valid until the directory changes.
  virtual Result<const ProcessMetadata*> find(std::uint32_t pid) const = 0;
  // Grows with every change of a result.
  virtual std::uint64_t revision() const = 0;
};

}  // namespace gpuyard
