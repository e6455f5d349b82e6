// The kernel's view of the simulated GPUs as PCI devices with runtime power management: the files
// of /sys/bus/pci/devices that say whether an idle GPU is suspended. Each call of the simulated
// NVML for a GPU wakes it, as with a real driver, by the time of a file beside them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sim/world.h"

namespace gpuyard::sim {

class PciTree {
 public:
  // Writes the files of every GPU: it is active, and suspended once unused for `delay`.
  static Result<std::unique_ptr<PciTree>> create(const std::string& world_directory, const World&,
                                                 std::chrono::milliseconds delay);
  PciTree(const PciTree&) = delete;
  PciTree& operator=(const PciTree&) = delete;
  // Removes the files.
  ~PciTree();

  // Suspends GPUs that are unused for the delay, and wakes those that are used. Changes nothing
  // within kPeriod of the last call.
  void update(const World&, TimePoint now);

  static constexpr std::chrono::milliseconds kPeriod{50};

 private:
  struct Slot {
    std::string directory;
    std::chrono::nanoseconds last_use{};  // since 1970
    TimePoint used_at;
    bool suspended = false;
  };

  PciTree(std::string world_directory, std::chrono::milliseconds delay)
      : world_directory_(std::move(world_directory)), delay_(delay) {}

  std::string world_directory_;
  std::chrono::milliseconds delay_;
  std::vector<Slot> slots_;  // by place
  std::optional<TimePoint> updated_at_;
};

// Removes the files of a world's tree, and nothing else that is in its directory.
void remove_pci_tree(const std::string& world_directory);

}  // namespace gpuyard::sim
