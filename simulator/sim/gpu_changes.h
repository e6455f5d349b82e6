// What commands do to one GPU and nothing else. Pure: the GPU is changed, or left as it was and an
// error says why.
#pragma once

#include "sim/command.h"
#include "sim/world.h"

namespace gpuyard::sim {

Command load_command(int gpu, const Workload&);
Result<void> set_load(Gpu&, const Command&, std::chrono::milliseconds now);

// Gives each failing call its number among a world's faults, of which there were `made`.
void number_calls(Fault&, std::uint64_t& made);

// Adds the fault to what the GPU has.
Result<void> inject(Gpu&, Fault, std::uint64_t& made);

// Faults cleared, heat.
Result<void> change_gpu(Gpu&, const Command&);

}  // namespace gpuyard::sim
