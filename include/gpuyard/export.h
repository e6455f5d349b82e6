/// @file
/// Marks what libgpuyard exports; everything else in it stays inside.
#pragma once

/// On everything that the library exports.
#define GPUYARD_API __attribute__((visibility("default")))
