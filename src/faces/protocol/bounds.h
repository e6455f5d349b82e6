// Bounds shared by several request records. The bounds of a single field are in its GPUYARD_ABOUT.
// The reader of requests checks both.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "core/lease/lease.h"
#include "core/lease/scheduler.h"

namespace gpuyard::protocol {

// Durations in seconds. A year is more than any request needs, and far below the longest Duration.
inline constexpr double kMinSeconds = 0.001;
inline constexpr double kMaxSeconds = to_seconds(std::chrono::hours(366 * 24));

// Numbers beyond this are not exact in every reader of JSON.
inline constexpr double kMaxExactInteger = 9'007'199'254'740'991;

inline constexpr double kMaxPid = 4'194'304;      // on Linux
inline constexpr double kMaxUid = 4'294'967'294;  // the next number means no user

// Bytes of free text: notes, reasons, comments.
inline constexpr std::size_t kMaxNoteBytes = 200;
inline constexpr std::size_t kMaxModelBytes = 64;
inline constexpr std::size_t kMaxGpuNameBytes = 64;  // a UUID has 40
inline constexpr std::size_t kMaxNameBytes = 64;     // of a rule, a sink, a token
inline constexpr std::size_t kMaxWordBytes = 32;     // of an enumeration

inline constexpr std::size_t kMaxGpuNames = lease::kMaxGpus;

}  // namespace gpuyard::protocol
