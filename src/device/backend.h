// The only door to one vendor's hardware.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "device/device.h"
#include "device/reading.h"

namespace gpuyard {

// What the driver says of itself once it is open.
struct DriverSession {
  DriverInfo driver;
  std::uint32_t gpu_count = 0;
};

// A call may block for milliseconds, or for ever when a GPU is dying: whoever calls keeps a thread
// per GPU. open() and read() may be called for different GPUs at the same time, and never twice at
// once for one. One bad GPU is a missing reading or a DeviceInfo::fault, never a failed call.
class Backend {
 public:
  virtual ~Backend() = default;

  // Opens the driver on first use. Errors are init_failed() or query_failed().
  virtual Result<DriverSession> start() = 0;

  // The GPU at an index below gpu_count. One with a fault may be opened again later.
  virtual DeviceInfo open(std::uint32_t index) = 0;

  // Every row the probes fill is in the sample: a value, or why it is missing.
  virtual Sample read(const DeviceId&, ProbeSet) = 0;
};

}  // namespace gpuyard
