// What this machine calls itself.
#pragma once

#include <string>

namespace gpuyard {

// "" if it does not say.
std::string host_name();

}  // namespace gpuyard
