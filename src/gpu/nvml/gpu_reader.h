// One GPU's probes, with what some of them remember between two runs. Used by one thread at a time.
#pragma once

#include "nvml/api.h"
#include "nvml/gpm.h"
#include "nvml/probes.h"
#include "nvml/process_list.h"
#include "nvml/support.h"

namespace gpuyard::nvml {

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
