// The health of each GPU over time: what the pure verdict cannot know, which ECC errors are new and
// which were contained. Not thread safe; its owner guards it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "device/ecc_baseline.h"
#include "device/health.h"
#include "device/snapshot.h"

namespace gpuyard {

// What the verdict looks at.
inline constexpr ProbeSet kHealthProbes = {Probe::temperature, Probe::ecc_totals};

class HealthWatch {
 public:
  explicit HealthWatch(HealthPolicy policy = {}) : policy_(std::move(policy)) {}

  // What was read of a GPU just now. The first count of its errors is the baseline.
  void note(const DeviceId&, const Sample&);
  // An error was contained (Xid 94) at the cost of this process. It is forgotten once a list of the
  // GPU's processes comes without it.
  void note_contained(const DeviceId& gpu, std::uint32_t pid) { gpus_[gpu].contained(pid); }
  // The same, where nobody says which process: any of those that `latest` lists. Without a list it
  // is forgotten once there is one.
  void note_contained(const DeviceId& gpu, const Sample& latest);
  // Which process that was, told later.
  void name_contained(const DeviceId& gpu, std::uint32_t pid) { gpus_[gpu].it_was(pid); }
  // What was counted so far is known.
  void acknowledge(const DeviceId& gpu) { gpus_[gpu].acknowledge(); }

  HealthReport judge(const DeviceState&) const;

 private:
  HealthPolicy policy_;
  std::map<DeviceId, EccBaseline> gpus_;  // of one boot and driver: as many as there were GPUs
};

}  // namespace gpuyard
