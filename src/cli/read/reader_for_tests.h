// The user who reads the tables of these tests, and the time.
#pragma once

#include "cli/control/control_text.h"

namespace gpuyard::cli {

inline constexpr WallTime kNow{std::chrono::seconds(1'769'860'800)};  // 2026-01-31T12:00:00Z
inline const ControlReader kMe{"uid 1000", kNow};

}  // namespace gpuyard::cli
