// The connections of ssh that a view leaves behind to be shared by the next one: ssh's masters,
// which end by themselves ten minutes after their last use. Knows ssh's options, and no daemon.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/paths.h"
#include "base/result.h"

namespace gpuyard::fleet {

// Returns the directory of their sockets, which only this user can enter, and makes it. It is of
// clients alone: a daemon's own directory may be another user's.
Result<std::string> make_masters_directory(const Environment&);
// Returns the directories that may have sockets: a program without XDG_RUNTIME_DIR, as cron starts
// one, has another directory.
std::vector<std::string> masters_directories(const Environment&);

struct ClosedMasters {
  std::size_t closed = 0;
  // Sockets whose master did not end within kMasterCloseTimeout.
  std::vector<std::string> remaining;
};
inline constexpr Duration kMasterCloseTimeout = std::chrono::seconds(3);

// Asks every master in the directory to end, and removes the sockets of those that are gone.
ClosedMasters close_masters(const std::string& directory);

}  // namespace gpuyard::fleet
