/// @file
/// All of libgpuyard.
#pragma once

#include "gpuyard/monitor.h"    // IWYU pragma: export
#include "gpuyard/sparkline.h"  // IWYU pragma: export
