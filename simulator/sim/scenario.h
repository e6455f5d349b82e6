// A scenario file: the world to begin, the load of each GPU, and timed events. The events are
// commands of `gpuyard sim` with times; docs/simulator.md shows a file.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/command.h"
#include "sim/world_client.h"

namespace gpuyard::sim {

struct TimedCommand {
  std::chrono::milliseconds at{0};  // since the world began
  std::size_t number = 0;           // in the order of the file
  Command command;
};

struct Scenario {
  WorldOptions world;  // from [world]; without directory, lifetime and program
  std::size_t gpus = 0;
  double ambient = 30.0;                 // degrees C
  std::chrono::milliseconds warm_up{0};  // simulated before the world begins
  std::vector<Command> loads;            // in force from the beginning
  std::vector<TimedCommand> timeline;    // by time; at equal times in the order of the file
};

inline constexpr std::size_t kMaxTimelineEntries = 10'000;

// `file` is the file's name in messages: each is "file:line: what is wrong, what there is". `gpus`,
// if given, overrides the file's number of GPUs; a mixed fleet must have this number.
Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                std::optional<int> gpus = {});

Result<Scenario> read_scenario(const std::string& file, std::optional<int> gpus = {});

}  // namespace gpuyard::sim
