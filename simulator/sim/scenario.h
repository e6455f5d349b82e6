// A scenario file: which world to begin, what each GPU does, and what happens to it when. A list of
// the commands that `gpuyard sim` would give, with times; docs/simulator.md shows one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/command.h"
#include "sim/keeper.h"

namespace gpuyard::sim {

struct TimedCommand {
  std::chrono::milliseconds at{0};  // since the world began
  std::size_t number = 0;           // in the order of the file
  Command command;
};

struct Scenario {
  WorldOptions world;  // what [world] says; no directory, lifetime or program
  std::size_t gpus = 0;
  double ambient = 30.0;                 // degrees C
  std::chrono::milliseconds warm_up{0};  // that has passed when the world begins
  std::vector<Command> loads;            // in force from the beginning
  std::vector<TimedCommand> timeline;    // by time; at one time in the order of the file
};

inline constexpr std::size_t kMostTimelineEntries = 10'000;

// `file` is what messages call it: each is "file:line: what is wrong, what there is". `gpus`, where
// given, is how many GPUs the world has whatever the file says; a mixed fleet must be as many.
Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                std::optional<int> gpus = {});

Result<Scenario> read_scenario(const std::string& file, std::optional<int> gpus = {});

}  // namespace gpuyard::sim
