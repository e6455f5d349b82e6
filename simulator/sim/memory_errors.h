// Errors of a GPU's memory, and the driver's repairs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "sim/world.h"

namespace gpuyard::sim {

struct MemoryErrors {
  EccLocation location = EccLocation::device_memory;
  bool uncorrected = false;
  std::uint32_t count = 1;
};

// Reads a name such as "device_memory"; empty for an unknown one.
std::optional<EccLocation> ecc_location_from_name(std::string_view);

inline constexpr std::uint32_t kMaxErrorsPerCommand = 1'000'000;

// Adds the errors to the volatile and aggregate counters. Each uncorrected error of the device
// memory also remaps a row or retires a page, which is pending until a reset. Errc::unsupported:
// the model has no ECC; Errc::conflict: ECC is off; Errc::invalid: no such location or count.
Result<void> add_memory_errors(Gpu&, const MemoryErrors&);

}  // namespace gpuyard::sim
