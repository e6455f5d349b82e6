// The power of CPU packages: the energy between two readings over the time between them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/rapl.h"

namespace gpuyard::cpu {

struct PackagePower {
  std::uint32_t number = 0;
  Result<std::int64_t> milliwatts;
  std::optional<Result<std::int64_t>> dram_milliwatts;  // nothing: it does not count its memory
};

// Of every package of the later reading.
std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later);

}  // namespace gpuyard::cpu
