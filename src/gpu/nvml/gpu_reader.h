// Runs one GPU's probes and keeps the state that some of them need between two runs. Used by one
// thread at a time.
#pragma once

#include <optional>

#include "gpu/nvml/api.h"
#include "gpu/nvml/probes.h"
#include "gpu/nvml/process_list.h"
#include "gpu/nvml/recorder.h"

namespace gpuyard::nvml {

// GPU performance monitoring (Hopper and newer): measures the use of the pipes between two samples
// that the driver takes. Keeps the older sample.
class Gpm {
 public:
  // The least time between two samples; for less the driver gives no result.
  static constexpr Duration kMinInterval = std::chrono::milliseconds(100);

  explicit Gpm(const Api& api) : api_(api) {}
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;
  ~Gpm();

  // Reads the metrics. The first time every row is "not ready", because there is no older sample.
  void read(DeviceHandle, Recorder);

 private:
  ReturnCode take_sample(DeviceHandle, TimePoint now);
  void measure(Recorder&);

  const Api& api_;
  GpmSample older_ = nullptr;
  GpmSample newer_ = nullptr;
  std::optional<TimePoint> older_taken_at_;
};

class GpuReader {
 public:
  GpuReader(const Api& api, DeviceHandle device, const ThrottleTimeFields& fields)
      : api_(api), device_(device), throttle_time_fields_(fields), gpm_(api) {}

  Sample read(ProbeSet);

 private:
  void run(Probe, Sample&);
  void learn_power_bounds();

  const Api& api_;
  const DeviceHandle device_;
  const ThrottleTimeFields throttle_time_fields_;
  SupportCache support_;
  PlausibilityFilter plausibility_filter_;
  bool power_bounds_read_ = false;  // queried once, whatever the result was
  Gpm gpm_;
  ProcessListReader processes_;
};

}  // namespace gpuyard::nvml
