// The effects of commands on one GPU. Pure: a function changes the GPU, or leaves it as it was and
// returns an error.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "sim/command.h"
#include "sim/world.h"

namespace gpuyard::sim {

Command load_command(int gpu, const Workload&);
Result<void> set_load(Gpu&, const Command&, std::chrono::milliseconds now);

// Numbers each failing call among the world's faults, and adds them to `made`, the number so far.
void number_calls(Fault&, std::uint64_t& made);

// Adds the fault to those of the GPU.
Result<void> inject(Gpu&, Fault, std::uint64_t& made);

// Carries out the commands that clear faults or set heat.
Result<void> change_gpu(Gpu&, const Command&);

}  // namespace gpuyard::sim
