// GPU performance monitoring (Hopper and newer): what the pipes did between two samples that the
// driver takes. Remembers the older one.
#pragma once

#include <optional>

#include "nvml/api.h"
#include "nvml/recorder.h"

namespace gpuyard::nvml {

class Gpm {
 public:
  // Closer together, the driver has nothing to say.
  static constexpr Duration kLeastInterval = std::chrono::milliseconds(100);

  explicit Gpm(const Api& api) : api_(api) {}
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;
  ~Gpm();

  // The first time every row is "not ready": there is nothing to compare with.
  void read(DeviceHandle, Recorder);

 private:
  ReturnCode take(DeviceHandle, TimePoint now);
  void measure(Recorder&);

  const Api& api_;
  GpmSample older_ = nullptr;
  GpmSample newer_ = nullptr;
  std::optional<TimePoint> older_taken_;
};

}  // namespace gpuyard::nvml
