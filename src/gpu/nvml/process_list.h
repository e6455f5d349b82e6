// The processes of a GPU. How many bytes a driver writes for each differs from version to version
// under one and the same name, so it is measured: the room is filled with a pattern first, and what
// of it is gone afterwards says how long an entry is.
#pragma once

#include <cstddef>
#include <optional>

#include "nvml/api.h"
#include "nvml/recorder.h"

namespace gpuyard::nvml {

// Remembers up to when the utilisation of processes has been read.
class ProcessLists {
 public:
  // More is no answer but a mistake.
  static constexpr unsigned kMostProcesses = 65536;

  void read(const Api&, DeviceHandle, Recorder);

 private:
  unsigned long long last_seen_us_ = 0;
};

}  // namespace gpuyard::nvml
