// Which driver a process of ours opens: the NVML that the user names, that of a simulated world,
// the system's, or a recording. The only wiring that knows them all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "recording/replay_backend.h"

namespace gpuyard::library {

struct DriverChoice {
  std::string path;                         // of NVML; empty: the system's
  std::optional<recording::Replay> replay;  // instead of any NVML
};

// `configured` wins; else a world named by GPUYARD_SIM_WORLD means the simulated library.
// `simulated_library` is where that one is installed.
DriverChoice choose_nvml(const std::string& configured, const std::string& simulated_library);

Result<std::unique_ptr<Backend>> open_driver(const DriverChoice&);

// The choice as a driver-host is told it, and back. The place of the simulated library is not told:
// both are the same program.
std::vector<std::string> arguments_of(const DriverChoice&);
DriverChoice choice_of(const std::vector<std::string>& arguments,
                       const std::string& simulated_library);

// What the hidden verb `driver-host` runs: the child process that loads NVML for the daemon.

// `arguments`: what arguments_of() says of the driver, and "--nofile" with the soft limit of
// descriptors to run with. `simulated_library` is where the simulated one is installed.
[[noreturn]] void run_driver_host(const std::vector<std::string>& arguments,
                                  const std::string& simulated_library);

}  // namespace gpuyard::library
