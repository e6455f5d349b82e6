// How a simulated world moves on. Pure: the next state depends on the state and the step alone.
#pragma once

#include <chrono>

#include "sim/world.h"

namespace gpuyard::sim {

inline constexpr std::chrono::milliseconds kStep{10};

// The laws, per GPU: load sets the power wanted; a governor lowers the SM clock until that fits
// under the cap; power, then temperature, follow with a first-order lag; energy is the integral of
// power.
void step(World&, std::chrono::milliseconds dt);

// Which clocks a GPU runs at, and why not at the highest.

// The power that a load would draw at an SM clock once it has settled.
double power_at(const Model&, double load, double sm_clock_mhz);

// Moves the clocks on towards where load, power limit, locked clocks and temperature want them, and
// sets the reasons.
void govern_clocks(Gpu&, std::chrono::milliseconds dt);

}  // namespace gpuyard::sim
