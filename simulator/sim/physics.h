// Advances a simulated world. Pure: the next state depends on the state and the step alone.
#pragma once

#include <chrono>

#include "sim/world.h"

namespace gpuyard::sim {

inline constexpr std::chrono::milliseconds kStep{10};

// Advances every GPU by `dt`. The load sets the wanted power; a governor lowers the SM clock until
// that fits under the cap; power, then temperature, follow with a first-order lag; energy is the
// integral of power.
void step(World&, std::chrono::milliseconds dt);

// The power that a load would draw at an SM clock once it has settled.
double power_at(const Model&, double load, double sm_clock_mhz);

// Moves the clocks towards the target that load, power limit, locked clocks and temperature set,
// and sets the clock event reasons.
void govern_clocks(Gpu&, std::chrono::milliseconds dt);

}  // namespace gpuyard::sim
