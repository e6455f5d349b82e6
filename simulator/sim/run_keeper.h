// The keeper process itself: what the hidden verb `sim-keeper` runs, and the arguments it is given.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/spawn.h"
#include "sim/keeper.h"

namespace gpuyard::sim {

// Descriptors a keeper inherits under these numbers; everything else is closed.
// Told once: "ready", or "<number of the Errc> <message>".
inline constexpr int kReadyFd = kFirstGivenFd;
// Closed by its creator's end; only with_creator.
inline constexpr int kLifelineFd = kFirstGivenFd + 1;

struct KeeperOptions {
  WorldOptions world;
  pid_t creator = 0;  // 0: independent
};

// What follows `sim-keeper` on the command line, and back.
std::vector<std::string> keeper_arguments(const KeeperOptions&);
Result<KeeperOptions> parse_keeper_arguments(std::span<const std::string>);

// Runs until it is told to stop; the exit code. Takes over the process's signals: call it from main
// and do nothing after it.
int run_keeper(const KeeperOptions&);

// Both in one: `arguments` is what follows `sim-keeper`.
int keeper_main(std::span<const std::string> arguments);

}  // namespace gpuyard::sim
