// Errors of a GPU's memory, and what the driver repairs after them.
#pragma once

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

// "device_memory"; empty for what is none.
std::optional<EccLocation> ecc_location_from_name(std::string_view);

inline constexpr std::uint32_t kMostErrorsAtOnce = 1'000'000;

// Counts them, volatile and aggregate. Uncorrected ones of the device memory also remap a row or
// retire a page each, which is pending until a reset. Errc::unsupported: the model has no ECC;
// Errc::conflict: it is off; Errc::invalid: no such location or count.
Result<void> add_memory_errors(Gpu&, const MemoryErrors&);

}  // namespace gpuyard::sim
