// Chooses the driver that a process of gpuyard opens: the NVML that the user names, that of a
// simulated world, the system's, or a recording. The only wiring that knows them all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "faces/recording/replay_backend.h"
#include "gpu/device/backend.h"

namespace gpuyard::library {

struct DriverChoice {
  std::string path;                         // of NVML; empty: the system's
  std::optional<recording::Replay> replay;  // instead of any NVML
};

// `configured` wins; else a world named by GPUYARD_SIM_WORLD selects the simulated library,
// installed at `simulated_library`.
DriverChoice choose_nvml(const std::string& configured, const std::string& simulated_library);

Result<std::unique_ptr<Backend>> open_driver(const DriverChoice&);

// Convert the choice to a driver-host's arguments, and back. The path of the simulated library is
// not passed on: both processes are the same program.
std::vector<std::string> arguments_of(const DriverChoice&);
DriverChoice choice_of(const std::vector<std::string>& arguments,
                       const std::string& simulated_library);

// Restores the soft limit of descriptors that "--nofile" names, if it does. The daemon raised it
// for its connections, but a driver that closes or scans "every descriptor" must not meet a
// million.
void lower_descriptor_limit(const std::vector<std::string>& arguments);

// Runs the hidden verb `driver-host`: the child process that loads NVML for the daemon.
// `arguments`: the driver as arguments_of() writes it, and "--nofile" with the soft limit of
// descriptors to run with. `simulated_library`: where the simulated NVML is installed.
[[noreturn]] void run_driver_host(const std::vector<std::string>& arguments,
                                  const std::string& simulated_library);

}  // namespace gpuyard::library
