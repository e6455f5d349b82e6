// The energy of CPU packages and their memory, as RAPL counts it: the zones intel-rapl:N in
// /sys/class/powercap, which AMD's packages have under the same names. Knows no GPU and no client.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::cpu {

// The largest count, which JSON can hold exactly: 9 GJ, half a century of a package's use.
inline constexpr std::int64_t kMaxMicrojoules = std::int64_t{1} << 53;

// Totals one of RAPL's counters, which wraps round. Knows no file.
class EnergyCounter {
 public:
  // `raw` is the number just read, `range` the value after which it wraps to 0, both from 0 to
  // kMaxMicrojoules. Returns the energy counted since the counter's own beginning, if no two wraps
  // lie between two calls.
  // If the range is not known, or the number was beyond it, a fall is no wrap but a reset, and the
  // total falls too: a caller that takes a difference across it sees the fall.
  std::int64_t count(std::int64_t raw, std::optional<std::int64_t> range);

 private:
  std::optional<std::int64_t> last_;
  std::int64_t total_ = 0;
};

struct PackageEnergy {
  std::uint32_t number = 0;                     // the N of intel-rapl:N
  std::string name;                             // "package-0"; "psys" is all of the platform
  Result<std::int64_t> energy_uj;               // since the counter's own beginning
  std::optional<Result<std::int64_t>> dram_uj;  // nothing: memory is not counted
};

struct Energies {
  TimePoint taken;
  std::vector<PackageEnergy> packages;  // by number
  std::string unavailable_reason;       // why there are no packages
};

// Thread: any, one at a time. The kernel checks whether this user may see a counter when its file
// is opened, and not at each read: the files stay open, so that the process may lose the right.
class Rapl {
 public:
  static constexpr std::uint32_t kMaxPackages = 64;
  static constexpr std::uint32_t kMaxSubzones = 16;  // of a package

  // Opens the counters that are there.
  explicit Rapl(std::string root);

  // Blocks on sysfs for some ten microseconds a file. Counters that wrapped once since the last
  // call are counted on; two wraps between two calls go unnoticed.
  Energies read();

 private:
  struct Zone {
    EnergyCounter counter = {};
    UniqueFd file = {};  // its counter's
    bool seen = true;    // in this reading
  };

  Result<std::int64_t> count(const std::string& path);
  std::optional<Result<std::int64_t>> count_dram(const std::string& package);

  const std::string root_;
  std::map<std::string, Zone> zones_;  // by path
};

// The power of a CPU package: the energy between two readings divided by the time between them.
struct PackagePower {
  std::uint32_t number = 0;
  Result<std::int64_t> milliwatts;
  std::optional<Result<std::int64_t>> dram_milliwatts;  // nothing: memory is not counted
};

// Returns the power of every package in the later reading.
std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later);

}  // namespace gpuyard::cpu
