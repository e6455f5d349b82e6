// The state of the public Monitor.
#pragma once

#include <string>

#include "faces/library/monitor.h"
#include "gpuyard/monitor.h"

namespace gpuyard {

// A monitor, or the reason why there is none.
struct Monitor::State {
  Result<library::Monitor> monitor;

  // Returns the view's result, or an empty one without a monitor.
  template <class View>
  auto view(View&& view) const -> decltype(view(*monitor)) {
    if (!monitor) return {};
    return view(*monitor);
  }
  std::uint32_t count() const { return monitor ? monitor->gpu_count() : 0; }
};

}  // namespace gpuyard

namespace gpuyard::library {

// Finds the file that this code was loaded from: libgpuyard has no other way to find what was
// installed beside it. Returns the path of the simulated NVML that was installed, or built, with
// this library.
std::string simulated_nvml_path();

}  // namespace gpuyard::library
