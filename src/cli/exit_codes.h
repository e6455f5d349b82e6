// Exit codes of a command, as a shell says them.
#pragma once

namespace gpuyard::cli {

inline constexpr int kCannotRun = 126;
inline constexpr int kNoSuchCommand = 127;
inline constexpr int kSignalled = 128;  // plus the number of the signal that ended it

}  // namespace gpuyard::cli
