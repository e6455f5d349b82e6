// Finding things out about processes: the work itself, for a worker or for a program that may wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "processes/owners.h"
#include "processes/process_reader.h"

namespace gpuyard::processes {

// Blocks on /proc. `driver_numbers`: whether these are numbers that a driver gave, which a
// container may know by others, or a simulated driver's, which are always ours.
enum class Numbers { of_a_driver, of_this_namespace };
std::vector<Finding> look_up(const ProcessReader&, const std::vector<Question>&, Numbers);

// Everything of these processes at once, users' names too: for a program that may wait.
std::unique_ptr<ProcessBook> look_up_all(const Owners::Listed&, Numbers);

}  // namespace gpuyard::processes
