// One entry of a scenario's timeline: what happens, as commands to the keeper.
#pragma once

#include <vector>

#include "sim/command.h"
#include "sim/scenario_table.h"
#include "sim/world.h"

namespace gpuyard::sim {

// The indexes that `gpu = 3`, `gpu = [0, 1]` or `gpu = "all"` (kEveryGpu) name; none where it is
// missing or wrong, which the table then knows.
std::vector<std::uint32_t> gpus_named(ScenarioTable&, std::size_t gpus);

// In the order in which they happen. Empty where something is wrong, which the table then knows.
// `fixed_places`: no GPU is ever unplugged, so that an index tells the model.
std::vector<Command> commands_of(ScenarioTable& entry, const Fleet&, bool fixed_places);

}  // namespace gpuyard::sim
