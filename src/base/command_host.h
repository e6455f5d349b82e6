// Starts children without the restrictions that this process puts on itself: a command host, which
// was started before them, makes the children. Commands of alerts and resets belong to the
// administrator, who may let them do what the daemon never does.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/clock.h"
#include "base/result.h"
#include "base/spawn.h"
#include "base/unique_fd.h"

namespace gpuyard {

inline constexpr int kCommandHostSocket = kFirstPassedFd;
// The maximum size of a command with its arguments and environment, in bytes. A larger one is an
// error.
inline constexpr std::size_t kMaxCommandBytes = std::size_t{192} << 10;
// A command host that begins no child within this time is killed, and no longer used.
inline constexpr Duration kCommandHostTimeout = std::chrono::seconds(3);

// Starts `gpuyard command-host` for spawn_unconfined(). It ends with this process. Call it before
// the first thread starts and before any privilege is given up.
Result<void> start_command_host();

// Starts a child as spawn() does, but by the command host, and without any capability. The child is
// this process's own, to be waited for. Without a command host, or if that has ended or is not
// responding, it is spawn(). Thread: any.
Result<pid_t> spawn_unconfined(const SpawnOptions&);

// Makes the process at the other end of this socket the command host of this one; no socket: none.
void set_command_host(UniqueFd socket, pid_t);

// Runs the command host: serves requests until the other end of the socket is closed.
[[noreturn]] void run_command_host(int socket = kCommandHostSocket);

}  // namespace gpuyard
