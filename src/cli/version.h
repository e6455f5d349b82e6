// The version of the program, as CMakeLists.txt says it.
#pragma once

#include <string_view>

namespace gpuyard::cli {

inline constexpr std::string_view kVersion = GPUYARD_VERSION;

}  // namespace gpuyard::cli
