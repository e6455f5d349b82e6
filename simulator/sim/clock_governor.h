// Which clocks a GPU runs at, and why not at the highest.
#pragma once

#include <chrono>

#include "sim/world.h"

namespace gpuyard::sim {

// The power that a load would draw at an SM clock once it has settled.
double power_at(const Model&, double load, double sm_clock_mhz);

// Moves the clocks on towards where load, power limit, locked clocks and temperature want them, and
// sets the reasons.
void govern_clocks(Gpu&, std::chrono::milliseconds dt);

}  // namespace gpuyard::sim
