// Bounds that several records of requests share. A field's own bounds stand where it is described,
// by GPUYARD_ABOUT, and the reader of requests checks them.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "lease/core.h"
#include "lease/lease.h"

namespace gpuyard::protocol {

// Lengths of time, in seconds: nobody means more than a year, and it is far below what a Duration
// holds.
inline constexpr double kShortestTime = 0.001;
inline constexpr double kLongestTime = to_seconds(std::chrono::hours(366 * 24));

// Numbers beyond this are not exact in every reader of JSON.
inline constexpr double kLargestExact = 9'007'199'254'740'991;

inline constexpr double kLastPid = 4'194'304;      // of Linux
inline constexpr double kLastUid = 4'294'967'294;  // the next number means no user

// Bytes of what people write for people: notes, reasons, comments.
inline constexpr std::size_t kLongestNote = 200;
inline constexpr std::size_t kLongestModel = 64;
inline constexpr std::size_t kLongestGpuName = 64;  // a UUID has 40
inline constexpr std::size_t kLongestName = 64;     // of a rule, a sink, a token
inline constexpr std::size_t kLongestWord = 32;     // of a few that are listed

inline constexpr std::size_t kMostGpuNames = lease::kMostGpus;

}  // namespace gpuyard::protocol
