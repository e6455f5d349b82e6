// Which GPUs are listed: those that the driver counts, and for a day those that it counted before.
// A GPU that is lost for good is not even counted by the next driver session; that must not look as
// if it had never been there. Pure state: it is told the time.
#pragma once

#include <vector>

#include "base/clock.h"
#include "device/device.h"

namespace gpuyard::telemetry {

class Roster {
 public:
  // What the driver counts now.
  void arrive(const std::vector<DeviceInfo>& counted, TimePoint now, WallTime wall);
  // True: somebody has been gone for too long and is not listed any more.
  bool forget(TimePoint now);

  // By index. One that is gone has the fault "device lost", and its own index unless that is
  // another's now: then one that is free.
  std::vector<DeviceInfo> list() const;

  static constexpr Duration kRemembered = std::chrono::hours(24);
  static constexpr std::size_t kMostGone = 64;

 private:
  struct Gone {
    DeviceInfo info;
    TimePoint since;
  };

  void note_gone(const DeviceInfo&, TimePoint now, WallTime wall);

  std::vector<DeviceInfo> counted_;
  std::vector<Gone> gone_;  // by time
};

}  // namespace gpuyard::telemetry
