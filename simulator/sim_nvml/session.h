// Whether NVML is initialised in this process, and the driver that it uses.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "base/published.h"
#include "gpu/nvml/abi.h"
#include "sim_nvml/opened_driver.h"

namespace gpuyard::sim_nvml {

// Counts initialisations, like NVML: the driver closes with the last shutdown. Any thread.
class Session {
 public:
  nvml::ReturnCode open();   // the code of OpenedDriver::open()
  nvml::ReturnCode close();  // uninitialized, if nothing is open

  // Null while nothing is open. A call that holds the driver is safe from a concurrent shutdown.
  std::shared_ptr<const OpenedDriver> driver() const { return driver_.load(); }

 private:
  Mutex mutex_;
  int opened_ GUARDED_BY(mutex_) = 0;
  Published<OpenedDriver> driver_;
};

// The only global of this library: NVML's interface has no session argument.
Session& session();

}  // namespace gpuyard::sim_nvml
