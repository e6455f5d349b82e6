// Whether NVML is initialised in this process, and the world it then reads.
#pragma once

#include <memory>
#include <mutex>

#include "base/published.h"
#include "nvml/abi.h"
#include "sim/world_reader.h"

namespace gpuyard::sim_nvml {

// Counted, like NVML's own: the world closes with the last shutdown. Any thread.
class Session {
 public:
  nvml::ReturnCode open();   // driver not loaded, if no living world is found
  nvml::ReturnCode close();  // uninitialized, if nothing is open

  // Null while nothing is open. A call that holds it outlives a shutdown beside it.
  std::shared_ptr<const sim::WorldReader> world() const { return world_.load(); }

 private:
  std::mutex mutex_;
  int opened_ = 0;
  Published<sim::WorldReader> world_;
};

// The only global of this library: NVML's interface has no other place for it.
Session& session();

}  // namespace gpuyard::sim_nvml
