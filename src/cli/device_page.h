// The full picture of one GPU, in groups, for people.
#pragma once

#include <string>

#include "cli/screen.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// What is missing is one line at the end for each reason. `local_pids`: the process ids are those
// of this machine, so that they can be named.
std::string device_page(const protocol::Snapshot&, const protocol::Device&, const Screen&,
                        bool local_pids);

}  // namespace gpuyard::cli
