// Finds the processes that name a lease in their environment. Only root and a process's own user
// may read an environment, so the daemon usually queries `gpuyard marks`, a process of its own with
// the capabilities for that, and reads only what it may read itself if that does not reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/processes/process_table.h"

namespace gpuyard::processes {

class MarkClient;

// The variable that says for which lease a process runs.
inline constexpr std::string_view kLeaseVariable = "GPUYARD_LEASE";
// The most bytes of an environment that are read.
inline constexpr std::size_t kMaxEnvironmentBytes = std::size_t{256} * 1024;
inline constexpr std::size_t kMaxLeaseIdLength = 64;  // bytes of a lease's id

// Returns the lease that an environment names; "" if it names none.
std::string lease_in_environment(std::string_view environment);

// The namespace of process numbers: this PID namespace's, or the driver's.
enum class PidSpace : std::uint32_t { ours, drivers };

struct ScanTarget {
  ProcessKey process;
  // Differs between programs: a process gets a new environment with a new program.
  std::uint32_t program = 0;
  bool reread = false;  // its environment is read even if it is remembered

  friend bool operator==(const ScanTarget&, const ScanTarget&) = default;
};

std::uint32_t program_of(std::string_view command);

struct KnownMark {
  ScanTarget target;
  std::string lease;  // that the environment names, or ""

  // Returns whether it is the same process, still with the same program.
  bool is_of(const ScanTarget& now) const {
    return target.process == now.process && target.program == now.program;
  }
};

// An index into the list of leases of the request, or one of the two below.
using MarkIndex = std::int32_t;
inline constexpr MarkIndex kNoMark = -1;
inline constexpr MarkIndex kMarkUnreadable = -2;

// Reads environments. Remembers what was read, so that frequent reads cost little.
//
// Thread: worker. Blocks on /proc.
class MarkReader {
 public:
  // A process's environment is read again for this long after its start. A process gets a new
  // environment with a new program; after this time that is seen by its command.
  static constexpr Duration kStartupPeriod = std::chrono::seconds(10);
  // One observation waits at most this long for processes that load their programs.
  // Loading takes microseconds on an idle core.
  static constexpr Duration kLoadTimeout = std::chrono::milliseconds(100);

  explicit MarkReader(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  // Returns one index for each process. `until`: when it stops waiting for processes that load.
  std::vector<MarkIndex> read(std::span<const ScanTarget>, std::span<const std::string> leases,
                              TimePoint now, TimePoint until);

 private:
  static constexpr std::size_t kMaxCachedMarks = 2 * ProcessTable::kMaxRows;

  const std::string* mark_of(const ScanTarget&, TimePoint now, TimePoint until);

  std::string proc_root_;
  std::map<std::uint32_t, KnownMark> cache_;
};

// The marks of processes, by `gpuyard marks` if it replies. Thread: worker.
class EnvironmentScanner {
 public:
  struct Mark {
    std::string lease;  // "" if it names none of the leases of the request
    bool known = true;  // false: `gpuyard marks` could say, but does not reply now
  };

  // Without a client every mark is read directly.
  EnvironmentScanner(std::string proc_root, PidSpace pid_space, std::shared_ptr<MarkClient> client)
      : reader_(std::move(proc_root)), pid_space_(pid_space), client_(std::move(client)) {}

  std::vector<Mark> read(const std::vector<ScanTarget>&, const std::vector<std::string>& leases,
                         TimePoint now);

 private:
  MarkReader reader_;
  PidSpace pid_space_;
  std::shared_ptr<MarkClient> client_;
  // The marks that stay known while `gpuyard marks` does not reply.
  std::map<std::uint32_t, KnownMark> last_marks_;
};

}  // namespace gpuyard::processes
