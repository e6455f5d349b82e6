// Notices when processes die. Knows no GPU.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::sim {

// Identifies one process, even after the kernel has reused its pid.
struct ProcessKey {
  std::uint32_t pid = 0;
  std::uint64_t start_time = 0;

  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

// One thread. Never blocks: poll fd() for reading, then call take_exited().
class ProcessExitMonitor {
 public:
  static Result<ProcessExitMonitor> create();

  int fd() const { return epoll_.get(); }

  // Watches a process. Watching it again changes nothing. Errc::not_found: there is no such
  // process, or it has ended. Errc::busy: no descriptor is left for one more.
  Result<void> watch(const ProcessKey&);

  // Returns the processes that ended since the last call, and stops watching them.
  std::vector<ProcessKey> take_exited();

 private:
  explicit ProcessExitMonitor(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  std::map<ProcessKey, UniqueFd> watched_;
};

}  // namespace gpuyard::sim
