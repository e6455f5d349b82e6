// One keeper per directory: the file `lock`, flocked for the keeper's whole life, says which.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::sim {

// One process for ever: the kernel reuses pids, but not together with a start time.
struct KeeperIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
};

// Holds the directory for this process until the descriptor closes. Errc::conflict names the pid of
// the keeper that has it. The lock file is never renamed, and removed only with its directory: that
// would let two in.
Result<UniqueFd> take_keeper_lock(const std::string& directory);

void remove_keeper_lock(const std::string& directory);

// A lock file as somebody else than its keeper sees it.
class KeeperLock {
 public:
  // Errc::not_found: there is none. Errc::denied: what is there is not this user's own file, so
  // nothing it says can be believed.
  static Result<KeeperLock> open(const std::string& directory);

  // True: no keeper runs, and none begins while this exists.
  bool take();

  // Who last held it. To be believed only if it cannot be taken.
  std::optional<KeeperIdentity> keeper() const;

 private:
  explicit KeeperLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

// What a keeper that died leaves in a world's directory.

// Removes a world's state file and a keeper's socket. What only has the name of one stays. The
// caller holds the keeper's lock: they may be a living keeper's otherwise.
void remove_leftovers(const std::string& directory);

}  // namespace gpuyard::sim
