// Marks GPUs as used where the world simulates runtime power management (sim/pci_tree.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "sim/world_reader.h"

namespace gpuyard::sim_nvml {

// Any thread.
class WakeFiles {
 public:
  WakeFiles() = default;
  // Opens the files of all GPUs. A world without them has none, and then wake() does nothing.
  WakeFiles(const std::string& world_directory, const sim::WorldReader&);

  void wake(std::uint32_t place) const;

 private:
  std::array<UniqueFd, sim::kMaxGpus> files_;
};

}  // namespace gpuyard::sim_nvml
