// Pools for the tests of several files.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpuyard/gpuyard.h"

namespace gpuyard {

inline constexpr std::chrono::seconds kTestTimeout{30};  // only a broken test waits this long

inline Pool pool_of(const std::vector<std::uint32_t>& indexes) {
  std::vector<Pool::Gpu> gpus;
  for (const std::uint32_t index : indexes) {
    gpus.push_back({index, "NVIDIA", "GPU " + std::to_string(index)});
  }
  return *Pool::of(std::move(gpus));
}

// Waits until `count` claims wait.
inline void await_pending(const Pool& pool, std::size_t count) {
  while (pool.pending_claimers() != count) std::this_thread::yield();
}

}  // namespace gpuyard
