/// @file
/// The smallest view of a GPU: the values that every kind of GPU reports through every backend.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "gpuyard/error.h"
#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// One GPU at one moment, as a value: copy it, compare it, print it, write it as JSON.
///
/// A GPU whose memory or temperature cannot be read has no snapshot; Monitor::inventory() lists it
/// with the reason.
struct GpuSnapshot {
  std::uint32_t id = 0;                  ///< the GPU's index on the node, from 0
  std::uint64_t memory_total = 0;        ///< installed device memory, bytes
  std::uint64_t memory_used = 0;         ///< by all processes and the driver's reserve, bytes
  std::int64_t temperature_celsius = 0;  ///< of the core
  /// 0 to 100; empty where the hardware does not report it (MIG), never 0 for unknown.
  std::optional<std::uint32_t> utilisation_percent;
  /// Uncorrectable memory errors, cumulative; empty where the hardware has no ECC. Counted over the
  /// life of the GPU, or since the driver was loaded where there is no lifetime counter.
  std::optional<std::uint64_t> ecc_errors_uncorrected;

  /// Returns an object with these six names; an empty value is null.
  GPUYARD_API std::string to_json() const;
  /// Reads exactly what to_json() writes. Other text is Errc::invalid with the path to every
  /// problem.
  GPUYARD_API static Result<GpuSnapshot> from_json(std::string_view text);

  /// Equal when every field is.
  friend bool operator==(const GpuSnapshot&, const GpuSnapshot&) = default;
};

/// "GPU 0: 40 C, 93 % util, 30000000000 of 80000000000 B used, 2 uncorrectable ECC errors".
GPUYARD_API std::string to_string(const GpuSnapshot&);
/// Prints to_string().
GPUYARD_API std::ostream& operator<<(std::ostream&, const GpuSnapshot&);

}  // namespace v0
}  // namespace gpuyard
