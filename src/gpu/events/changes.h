// What changed from one snapshot to the next, as events: GPUs that come, go, fall silent or get
// worse, and the driver. Pure; knows no journal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/snapshot.h"
#include "events/intake.h"

namespace gpuyard::events {

// What must be remembered of one snapshot to tell what the next one changes.
struct FleetState {
  struct Gpu {
    std::uint32_t index = 0;
    std::string name;
    DeviceCondition condition = DeviceCondition::responsive;
    std::string why;                // of the condition
    std::optional<Health> verdict;  // the last that was known
    std::vector<std::string> reasons;
  };

  bool known = false;  // of the driver: it was asked at least once
  bool driver_up = false;
  std::string driver;  // its version, or why it is down
  bool gpus_known = false;
  std::map<DeviceId, Gpu> gpus;  // while the driver is down: those it had
};

FleetState state_after(const FleetState& before, const Snapshot&);

// Without sequences and times. Nothing from a state that is not known: the first one is no change.
// While the driver is down nothing is said of GPUs, and when it is back only what differs from when
// it went.
std::vector<Event> changes_between(const FleetState& before, const FleetState& after);

// Both, one snapshot after the other.
class ChangeWatch {
 public:
  std::vector<Event> note(const Snapshot&);

 private:
  FleetState state_;
};

}  // namespace gpuyard::events
