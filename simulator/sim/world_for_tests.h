// Helpers that the simulator's tests share. Part of no library.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/scratch_directory_for_tests.h"
#include "sim/world_client.h"
#include "sim/world_status.h"

namespace gpuyard::sim {

inline constexpr std::uint64_t kGiB = 1ULL << 30;

// Waits for a change that another process makes.
inline bool happens_within(std::chrono::milliseconds timeout, const std::function<bool()>& what) {
  const TimePoint deadline = BootClock::now() + timeout;
  while (!what()) {
    if (BootClock::now() >= deadline) return false;
    ::usleep(5'000);
  }
  return true;
}

// Returns a fault with which one call answers `code`, after `latency_ms`.
inline Fault failing(Call call, std::int32_t code, std::uint32_t latency_ms = 0) {
  Fault fault;
  fault.calls[0] = {.call = call, .code = code, .latency_ms = latency_ms};
  return fault;
}

}  // namespace gpuyard::sim
