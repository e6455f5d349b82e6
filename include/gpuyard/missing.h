/// @file
/// Why there is no value: a reading is a value or a reason, never a made-up number.
#pragma once

#include <cstdint>
#include <string>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// Why a reading has no value.
enum class MissingReason : std::uint8_t {
  not_supported,  ///< this GPU or driver does not report it
  no_permission,  ///< this user may not read it
  device_lost,    ///< the GPU fell off the bus or wants a reset
  driver_gone,    ///< the driver was unloaded or replaced while in use: only a new session helps
  timed_out,      ///< the driver call did not return by our deadline
  not_ready,      ///< nothing has been read yet
  failed,         ///< another error of the driver; the detail has its words
};

/// A reason and what the driver said.
struct Missing {
  MissingReason reason = MissingReason::not_ready;  ///< why
  std::string detail;                               ///< for people; may be empty

  /// Equal when both are.
  friend bool operator==(const Missing&, const Missing&) = default;
};

/// "GPU is lost" or, without a detail, the reason's own words.
GPUYARD_API std::string describe(const Missing&);

}  // namespace v0
}  // namespace gpuyard
