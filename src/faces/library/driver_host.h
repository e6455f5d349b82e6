// What the hidden verb `driver-host` runs: the child process that loads NVML for the daemon.
#pragma once

#include <string>
#include <vector>

namespace gpuyard::library {

// `arguments`: what arguments_of() says of the driver, and "--nofile" with the soft limit of
// descriptors to run with. `simulated_library` is where the simulated one is installed.
[[noreturn]] void run_driver_host(const std::vector<std::string>& arguments,
                                  const std::string& simulated_library);

}  // namespace gpuyard::library
