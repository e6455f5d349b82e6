/// @file
/// Marks what libgpuyard exports; everything else in it stays inside.
#pragma once

#define GPUYARD_API __attribute__((visibility("default")))
