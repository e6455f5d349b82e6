// Decides when the driver-host is to be started again although it answers: a driver whose every
// answer is an error, as in a container that has lost its device files, sometimes works in a new
// process. Pure state.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::daemon {

class DriverRenewal {
 public:
  // The delay after a new driver-host that changed nothing; doubled each time.
  static constexpr Duration kMinDelay = std::chrono::seconds(30);
  static constexpr Duration kMaxDelay = std::chrono::minutes(10);

  // Returns why the driver-host is to be started again now; nothing if it is to stay.
  std::optional<std::string> evaluate(const Snapshot&);

 private:
  Duration delay_ = kMinDelay;
  std::optional<TimePoint> not_before_;
};

}  // namespace gpuyard::daemon
