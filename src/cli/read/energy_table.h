// Energy as people read it.
#pragma once

#include <string>

#include "cli/read/answers.h"
#include "protocol/energy.h"

namespace gpuyard::cli {

// The daemon's books: a line for each GPU, their sum, and what is wrong.
std::string energy_table(const protocol::EnergyReport&);

// What a command used: "gpuyard: 12.3 s, 3.4 kJ, ..." and a line for each GPU.
std::string energy_summary(const MeasuredCommand&);

}  // namespace gpuyard::cli
