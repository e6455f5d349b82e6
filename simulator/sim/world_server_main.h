// The world server process itself: the hidden verb `sim-keeper` and its arguments.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/spawn.h"
#include "sim/world_client.h"

namespace gpuyard::sim {

// A world server inherits descriptors under these two numbers; all others are closed. To this one
// it writes once "ready", or "<number of the Errc> <message>".
inline constexpr int kReadyFd = kFirstPassedFd;
// The other end closes when the creator ends; only with_creator.
inline constexpr int kLifelineFd = kFirstPassedFd + 1;

struct WorldServerOptions {
  WorldOptions world;
  pid_t creator = 0;  // 0: independent
};

// The arguments after `sim-keeper` on the command line, written and read.
std::vector<std::string> world_server_arguments(const WorldServerOptions&);
Result<WorldServerOptions> parse_world_server_arguments(std::span<const std::string>);

// Runs until it is told to stop; returns the exit code. Takes over the process's signals: call it
// from main and do nothing after it.
int run_world_server(const WorldServerOptions&);

// Parses `arguments`, those after `sim-keeper`, and runs the world server.
int world_server_main(std::span<const std::string> arguments);

}  // namespace gpuyard::sim
