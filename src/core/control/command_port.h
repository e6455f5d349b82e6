// The port for commands to the driver.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/device/command.h"
#include "gpu/device/device.h"

namespace gpuyard::control {

// Sends commands to the driver. Thread: io.
class CommandPort {
 public:
  virtual ~CommandPort() = default;
  // Returns false if the process for such a command is not there, or is too busy: the driver-host
  // for one that reads, the setter for a change. Else the reply goes to
  // SettingController::on_reply(), or on_host_down() or on_setter_down() is called because there
  // will be none.
  virtual bool send(const CommandRequest&) = 0;
  // Returns why no GPU can be changed at present, if that is known.
  virtual std::optional<Error> change_error() const { return std::nullopt; }
  // Describes what is wrong with the changing of GPUs, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  // Errc::conflict: processes use the GPU.
  virtual Result<void> check_reset(const DeviceInfo&) = 0;
  // Ends the driver-host, resets the GPU, and starts a new driver-host, whose GPUs go to
  // SettingController::on_inventory(). May take long; the result never comes inside the call.
  virtual void reset_gpu(const DeviceInfo&, std::function<void(const Result<void>&)> on_done) = 0;
};

}  // namespace gpuyard::control
