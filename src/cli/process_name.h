// What a process of this machine is called.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuyard::cli {

// Its program as it was started, "/usr/bin/python3"; for one without arguments, the kernel's name
// for it. Nothing: there is no such process. What it says of itself: not to be trusted.
std::optional<std::string> process_name(std::uint32_t pid);

}  // namespace gpuyard::cli
