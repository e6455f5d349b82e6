// Reports the changes from one snapshot to the next as events: GPUs that come, go, stop answering
// or get worse, NVLinks that go down or up, and the driver. Pure; knows no event log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device/nvlinks.h"
#include "gpu/device/snapshot.h"
#include "gpu/events/event_log.h"

namespace gpuyard::events {

// The facts of one snapshot that are needed to find what the next one changes.
struct InventoryState {
  struct Gpu {
    std::optional<std::uint32_t> index;  // empty: another GPU has the index that it had
    std::string spoken_name;             // spoken_name()
    std::string name;
    DeviceCondition condition = DeviceCondition::responsive;
    std::string why;                // the reason for the condition
    std::optional<Health> verdict;  // the last one known
    std::vector<std::string> reasons;
    NvlinkStates nvlinks = {};  // as last known
  };

  bool known = false;  // true: the driver was asked at least once
  bool driver_up = false;
  std::string driver;  // its version, or why it is down
  bool gpus_known = false;
  std::map<DeviceId, Gpu> gpus;  // while the driver is down: the GPUs it had
};

InventoryState state_after(const InventoryState& before, const Snapshot&);

// Returns events without sequences and times. Returns none if `before` is not known: the first
// state is no change. While the driver is down it reports nothing of GPUs; afterwards it reports
// only what differs from before.
std::vector<Event> changes_between(const InventoryState& before, const InventoryState& after);

// Applies both functions to one snapshot after the other.
class ChangeDetector {
 public:
  std::vector<Event> update(const Snapshot&);

 private:
  InventoryState state_;
};

}  // namespace gpuyard::events
