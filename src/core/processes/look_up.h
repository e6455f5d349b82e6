// Finding things out about processes: the work itself, for a worker or for a program that may wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "processes/owners.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

// Whose process ids they are.
enum class Numbers {
  of_a_driver,     // a container may know the same processes by others
  of_simulation,   // they are always ours
  of_a_recording,  // they may be anybody's by now
};

// Why they name nobody there, if that is so.
Result<void> check_numbers(Numbers, const std::string& proc_root);

// Blocks on /proc.
std::vector<Finding> look_up(const ProcessReader&, const std::vector<Question>&, Numbers);

// Everything of these processes at once, users' names too: for a program that may wait.
std::unique_ptr<ProcessBook> look_up_all(const Owners::Listed&, Numbers);

}  // namespace gpuyard::processes
