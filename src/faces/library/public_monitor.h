// What stands behind the public Monitor.
#pragma once

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
