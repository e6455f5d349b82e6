// What stands behind the public Monitor.
#pragma once

#include <string>

#include "gpuyard/monitor.h"
#include "library/monitor.h"

namespace gpuyard {

// A monitor, or why there is none.
struct Monitor::State {
  Result<library::Monitor> monitor;

  // Nothing of no GPU.
  template <class View>
  auto view(View&& view) const -> decltype(view(*monitor)) {
    if (!monitor) return {};
    return view(*monitor);
  }
  std::uint32_t count() const { return monitor ? monitor->gpu_count() : 0; }
};

}  // namespace gpuyard

namespace gpuyard::library {

// Where the file is that this code was loaded from: libgpuyard has no other way to find what was
// installed beside it.

// The simulated NVML that was installed, or built, with this library.
std::string simulated_nvml_beside_library();

}  // namespace gpuyard::library
