// One of RAPL's counters, which goes round: what it has counted in all. Knows no file.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuyard::cpu {

// So that every number of it is one in JSON: 9 GJ, which a package counts in half a century.
inline constexpr std::int64_t kMostMicrojoules = std::int64_t{1} << 53;

class EnergyCounter {
 public:
  // `raw` as just read, and `range`, after which it begins again at 0, both from 0 to
  // kMostMicrojoules. Returns what was counted since the counter's own beginning, as far as it was
  // looked at before it had gone round twice.
  // Where the range is not known, or the number was beyond it, a fall is no round but a new
  // beginning, and so it is here: whoever takes a difference across it sees it fall.
  std::int64_t count(std::int64_t raw, std::optional<std::int64_t> range);

 private:
  std::optional<std::int64_t> last_;
  std::int64_t total_ = 0;
};

}  // namespace gpuyard::cpu
