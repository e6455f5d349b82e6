// What a fault makes of one call, inside the program that calls: a wait, a code, both.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "nvml/abi.h"
#include "sim/world_record.h"

namespace gpuyard::sim_nvml {

// Whose faults: a GPU's, by its place, or those of the driver.
inline constexpr std::uint32_t kOfTheDriver = sim::kMaxGpus;

// The faults as they are now; empty: the world is dead.
using CallsNow = std::function<std::optional<sim::CallFaults>()>;

// Waits for as long as the fault lasts that this call has to obey, and says what to answer: its
// code; success, if there is none, it has had its times in this process, or it was cleared
// meanwhile; driver not loaded, if the world died.
nvml::ReturnCode obey(const CallsNow&, std::uint32_t whose, sim::Call);

// Never a busy wait, and not cut short by a signal.
void sleep_for(std::uint32_t milliseconds);

std::uint64_t monotonic_us();

}  // namespace gpuyard::sim_nvml
