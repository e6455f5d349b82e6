// What control needs of whoever may call the driver.
#pragma once

#include <functional>

#include "device/command.h"

namespace gpuyard::control {

// Lives on the io thread.
class Hands {
 public:
  virtual ~Hands() = default;
  // False: there is no driver-host at present, or it is too busy. Else Control::on_reply() hears
  // the answer, or Control::on_host_down() that there is none.
  virtual bool command(const CommandRequest&) = 0;
  // Errc::conflict: processes use it.
  virtual Result<void> may_reset(const DeviceInfo&) = 0;
  // Ends the driver-host, resets the GPU, starts a driver-host again, whose GPUs Control is told.
  // Takes its time; the answer never comes inside the call.
  virtual void reset(const DeviceInfo&, std::function<void(const Result<void>&)> done) = 0;
};

}  // namespace gpuyard::control
