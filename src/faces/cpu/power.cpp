#include "cpu/power.h"

#include <algorithm>

namespace gpuyard::cpu {
namespace {

// More than any machine has: an energy of that kind is not one.
constexpr std::int64_t kMostMilliwatts = 1'000'000'000;

Result<std::int64_t> power_of(const Result<std::int64_t>& earlier,
                              const Result<std::int64_t>& later, std::int64_t microseconds) {
  if (!later) return later.error();
  if (!earlier) return earlier.error();
  if (microseconds <= 0) return Error{Errc::unavailable, "no time has passed between two readings"};
  if (*later < *earlier) {
    return Error{Errc::unavailable, "the counter of its energy began anew between two readings"};
  }
  const std::int64_t milliwatts = (*later - *earlier) / microseconds * 1000 +
                                  (*later - *earlier) % microseconds * 1000 / microseconds;
  if (milliwatts > kMostMilliwatts) {
    return Error{Errc::internal, "its energy grew by more than any CPU uses"};
  }
  return milliwatts;
}

}  // namespace

std::vector<PackagePower> power_between(const Energies& earlier, const Energies& later) {
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(later.taken - earlier.taken).count();
  const Error unknown{Errc::unavailable, "it was not there for the reading before"};
  std::vector<PackagePower> powers;
  for (const PackageEnergy& now : later.packages) {
    const auto before = std::ranges::find(earlier.packages, now.number, &PackageEnergy::number);
    const bool known = before != earlier.packages.end();
    PackagePower power{now.number,
                       power_of(known ? before->energy_uj : unknown, now.energy_uj, microseconds),
                       std::nullopt};
    if (now.dram_uj) {
      power.dram_milliwatts = power_of(known && before->dram_uj ? *before->dram_uj : unknown,
                                       *now.dram_uj, microseconds);
    }
    powers.push_back(std::move(power));
  }
  return powers;
}

}  // namespace gpuyard::cpu
