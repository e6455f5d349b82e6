// The energy of CPU packages and their memory, as RAPL counts it: the zones intel-rapl:N below
// /sys/class/powercap, which AMD's packages have under the same names. Knows no GPU and no client.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cpu/energy_counter.h"

namespace gpuyard::cpu {

struct PackageEnergy {
  std::uint32_t number = 0;                     // the N of intel-rapl:N
  std::string name;                             // "package-0"; "psys" is all of the platform
  Result<std::int64_t> energy_uj;               // since the counter's own beginning
  std::optional<Result<std::int64_t>> dram_uj;  // nothing: it does not count its memory
};

struct Energies {
  TimePoint taken;
  std::vector<PackageEnergy> packages;  // by number
  std::string why_none;                 // where there are none
};

// Used by one thread at a time.
class Rapl {
 public:
  static constexpr std::uint32_t kMostPackages = 64;
  static constexpr std::uint32_t kMostSubzones = 16;  // of a package

  explicit Rapl(std::string root) : root_(std::move(root)) {}

  // Blocks on sysfs for some ten microseconds a file. A counter that went round since the last call
  // is counted on; one that goes round twice between two calls is not noticed.
  Energies read();

 private:
  Result<std::int64_t> count(const std::string& zone);
  std::optional<Result<std::int64_t>> count_dram(const std::string& package);

  const std::string root_;
  std::map<std::string, EnergyCounter> counters_;  // by the zone's path
};

}  // namespace gpuyard::cpu
