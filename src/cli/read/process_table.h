// Who uses the GPUs, for people.
#pragma once

#include <string>

#include "cli/read/process_answer.h"
#include "cli/screen/screen.h"

namespace gpuyard::cli {

// The user's name, or number where it has no name; "-" for one that is not known.
std::string user_text(const protocol::Process&);

// The place that says most: Slurm job, pod, container, unit.
std::string place_text(const protocol::Process&);

// The arguments, or the name where they may not be seen.
std::string command_text(const protocol::ProcessInFull&);

// One row for each process and GPU; below it why something is not known. On a narrow screen these
// go, in this order: times, kinds, shares, places.
std::string process_table(const ProcessAnswer&, const Screen&);

}  // namespace gpuyard::cli
