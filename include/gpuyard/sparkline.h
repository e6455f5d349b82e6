/// @file
/// Numbers as a line of small bars, for logs and terminals.
#pragma once

#include <span>
#include <string>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// Percentages in eight heights, one character of UTF-8 each: 45, 67, 82, 91, 88, 75, 60 give
/// "▃▅▆█▇▅▄".
///
/// The heights begin at 0, 13, 25, 50, 63, 78, 85 and 90 percent: they distinguish high loads
/// better than low ones. A value below 0 has the lowest height, NaN is a blank.
GPUYARD_API std::string sparkline(std::span<const double> percentages);

/// Values in eight heights of equal size from 0 to `max`; a value outside has the nearest height,
/// NaN is a blank. If `max` is not above 0, all are lowest.
GPUYARD_API std::string sparkline(std::span<const double> values, double max);

}  // namespace v0
}  // namespace gpuyard
