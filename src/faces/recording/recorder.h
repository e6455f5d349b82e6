// Snapshots to the lines of a recording: what changed since the one before. Pure; writes no file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recording/line.h"

namespace gpuyard::recording {

class Recorder {
 public:
  // Everything that is new at `at`, since the recording began; the first time with the header. ""
  // where nothing is.
  std::string lines_of(const protocol::Snapshot&, Duration at);

 private:
  struct Known {
    DeviceCondition condition = DeviceCondition::responsive;
    std::optional<std::string> why;
    Sample sample;
    std::map<std::string, std::string> missing;
    std::optional<std::vector<GpuProcess>> processes;
  };

  static Line news_of(const protocol::Device&, const Known* before);

  bool begun_ = false;
  std::vector<Identity> gpus_;
  std::map<std::uint32_t, Known> known_;
};

}  // namespace gpuyard::recording
