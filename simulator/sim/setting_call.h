// A setter call from inside a client: one question to the keeper, one NVML return code back. Part
// of the simulated NVML, so it needs libc and the C++ runtime only.
#pragma once

#include <cstdint>
#include <string>

#include "sim/setting.h"

namespace gpuyard::sim {

// In force for every reader when this returns 0. Takes at most 2 s for each transfer. 9 (driver not
// loaded): no keeper is there; 10 (timeout): it does not answer; else what the keeper decided.
// `directory` is WorldReader::directory(). Any thread.
std::int32_t call_setter(const std::string& directory, const SettingWrite&);

}  // namespace gpuyard::sim
