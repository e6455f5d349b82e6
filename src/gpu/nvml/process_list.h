// Reads the processes of a GPU. The number of bytes that a driver writes for each differs between
// versions under the same name, so it is measured: the room is first filled with a pattern, and the
// part that was overwritten gives the length of an entry.
#pragma once

#include <cstddef>
#include <optional>

#include "gpu/nvml/api.h"
#include "gpu/nvml/recorder.h"

namespace gpuyard::nvml {

// Keeps the time up to which the utilisation of processes has been read.
class ProcessListReader {
 public:
  // A longer list is a mistake of the driver, not an answer.
  static constexpr unsigned kMaxProcesses = 65536;

  void read(const Api&, DeviceHandle, Recorder);

 private:
  unsigned long long last_seen_us_ = 0;
};

}  // namespace gpuyard::nvml
