// One GPU's probes, with what some of them remember between two runs. Used by one thread at a time.
#pragma once

#include <optional>

#include "nvml/api.h"
#include "nvml/probes.h"
#include "nvml/process_list.h"
#include "nvml/recorder.h"

namespace gpuyard::nvml {

// GPU performance monitoring (Hopper and newer): what the pipes did between two samples that the
// driver takes. Remembers the older one.

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

class GpuReader {
 public:
  GpuReader(const Api& api, DeviceHandle device, const ThrottleTimeFields& fields)
      : api_(api), device_(device), throttle_time_fields_(fields), gpm_(api) {}

  Sample read(ProbeSet);

 private:
  void run(Probe, Sample&);

  const Api& api_;
  const DeviceHandle device_;
  const ThrottleTimeFields throttle_time_fields_;
  SupportMemory support_;
  Gpm gpm_;
  ProcessLists processes_;
};

}  // namespace gpuyard::nvml
