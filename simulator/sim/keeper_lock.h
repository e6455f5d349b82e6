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
// the keeper that has it. The lock file is never removed or renamed: that would let two in.
Result<UniqueFd> take_keeper_lock(const std::string& directory);

// The keeper that last held the lock, if that process still exists.
std::optional<KeeperIdentity> running_keeper(const std::string& directory);

}  // namespace gpuyard::sim
