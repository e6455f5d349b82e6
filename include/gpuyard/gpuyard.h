/// @file
/// All of libgpuyard.
#pragma once

#include "gpuyard/andon.h"                // IWYU pragma: export
#include "gpuyard/client.h"               // IWYU pragma: export
#include "gpuyard/control.h"              // IWYU pragma: export
#include "gpuyard/log.h"                  // IWYU pragma: export
#include "gpuyard/monitor.h"              // IWYU pragma: export
#include "gpuyard/pool.h"                 // IWYU pragma: export
#include "gpuyard/prometheus_exporter.h"  // IWYU pragma: export
#include "gpuyard/sparkline.h"            // IWYU pragma: export
#include "gpuyard/training.h"             // IWYU pragma: export
