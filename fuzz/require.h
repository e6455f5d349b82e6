// An invariant of a fuzz target: prints which one broke, then aborts so that libFuzzer keeps the
// input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace gpuyard::fuzz {

inline void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", invariant);
  std::abort();
}

}  // namespace gpuyard::fuzz
