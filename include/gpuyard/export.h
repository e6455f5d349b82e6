/// @file
/// Marks what libgpuyard exports; everything else in it stays inside.
#pragma once

/// Stands before everything that the library exports.
#define GPUYARD_API __attribute__((visibility("default")))
