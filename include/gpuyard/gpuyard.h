/// @file
/// All of libgpuyard.
#pragma once

#include "gpuyard/control.h"    // IWYU pragma: export
#include "gpuyard/log.h"        // IWYU pragma: export
#include "gpuyard/monitor.h"    // IWYU pragma: export
#include "gpuyard/pool.h"       // IWYU pragma: export
#include "gpuyard/sparkline.h"  // IWYU pragma: export
