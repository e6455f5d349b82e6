// Whether NVML is initialised in this process, and the driver it then asks.
#pragma once

#include <memory>
#include <mutex>

#include "base/worker.h"
#include "nvml/abi.h"
#include "sim_nvml/opened_driver.h"

namespace gpuyard::sim_nvml {

// Counted, like NVML's own: the driver closes with the last shutdown. Any thread.
class Session {
 public:
  nvml::ReturnCode open();   // what OpenedDriver::open() says
  nvml::ReturnCode close();  // uninitialized, if nothing is open

  // Null while nothing is open. A call that holds it outlives a shutdown beside it.
  std::shared_ptr<const OpenedDriver> driver() const { return driver_.load(); }

 private:
  std::mutex mutex_;
  int opened_ = 0;
  Published<OpenedDriver> driver_;
};

// The only global of this library: NVML's interface has no other place for it.
Session& session();

}  // namespace gpuyard::sim_nvml
