// What the hidden verb `driver-host` runs: the child process that loads NVML for the daemon.
#pragma once

#include <string>
#include <vector>

namespace gpuyard::library {

// `arguments`: "--nvml" and the path of the library, "--nofile" and the soft limit of descriptors
// to run with; both may be missing. `simulated_library` is where the simulated one is installed.
[[noreturn]] void run_driver_host(const std::vector<std::string>& arguments,
                                  const std::string& simulated_library);

}  // namespace gpuyard::library
