// One world server per directory: the file `lock`, flocked for its whole life, names it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::sim {

// Identifies one process: the kernel reuses pids, but not together with a start time.
struct LockOwner {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
};

// Locks the directory for this process until the descriptor closes. Errc::conflict names the pid of
// the world server that holds it. The lock file is never renamed, and removed only with its
// directory: otherwise two world servers could hold a lock.
Result<UniqueFd> acquire_world_lock(const std::string& directory);

void remove_world_lock(const std::string& directory);

// A lock file as seen by a process other than its owner.
class WorldLock {
 public:
  // Errc::not_found: there is no lock file. Errc::denied: it is not this user's own file, so its
  // content cannot be trusted.
  static Result<WorldLock> open(const std::string& directory);

  // Takes the lock. True: no world server runs, and none can start while this object exists.
  bool try_acquire();

  // The world server that last held the lock. Trustworthy only if try_acquire() fails.
  std::optional<LockOwner> owner() const;

 private:
  explicit WorldLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

// Removes a world's state file and a world server's socket. A file of another kind under these
// names stays. The caller must hold the world server's lock: otherwise they may belong to a living
// world server.
void remove_leftovers(const std::string& directory);

}  // namespace gpuyard::sim
