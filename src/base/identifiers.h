// The name of this machine, and new unique names.
#pragma once

#include <string>

namespace gpuyard {

// Returns "" if the machine has no name.
std::string host_name();

// Returns a new unique name for an object that people and programs refer to later. Two names never
// collide by chance, not even between state directories.
std::string new_id();

}  // namespace gpuyard
