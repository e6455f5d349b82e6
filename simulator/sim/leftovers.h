// What a keeper that died leaves in a world's directory.
#pragma once

#include <string>

namespace gpuyard::sim {

// Removes a world's state file and a keeper's socket. What only has the name of one stays. The
// caller holds the keeper's lock: they may be a living keeper's otherwise.
void remove_leftovers(const std::string& directory);

}  // namespace gpuyard::sim
