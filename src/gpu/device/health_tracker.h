// Keeps the health of each GPU over time. It adds what the pure verdict cannot know: which ECC
// errors are new and which were contained.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gpu/device/device.h"
#include "gpu/device/ecc_baseline.h"
#include "gpu/device/health.h"
#include "gpu/device/metric.h"
#include "gpu/device/power_sources.h"
#include "gpu/device/snapshot.h"

namespace gpuyard {

// The probes that the verdict needs.
inline constexpr ProbeSet kHealthProbes = {Probe::temperature, Probe::ecc_totals};

// Thread: any one at a time; its owner guards it.
class HealthTracker {
 public:
  explicit HealthTracker(HealthPolicy policy = {}) : policy_(std::move(policy)) {}

  // Takes a new sample of a GPU. The first error count is the baseline.
  void update(const DeviceId&, const Sample&);
  // An error was contained (Xid 94) at the cost of this process. It is dropped once a process list
  // of the GPU no longer has the process.
  void record_contained(const DeviceId& gpu, std::uint32_t pid) { gpus_[gpu].add_contained(pid); }
  // The same for an unknown process: any of those that `latest` lists. Without a list it is dropped
  // once there is one.
  void record_contained(const DeviceId& gpu, const Sample& latest);
  // Names that process afterwards.
  void identify_contained(const DeviceId& gpu, std::uint32_t pid) {
    gpus_[gpu].identify_contained(pid);
  }
  // Sets whether the sources of power are compared with each other; at first they are not. They
  // must not be for GPUs whose time is not ours.
  void set_power_comparison(bool compare);
  // Returns PowerSources::contradiction() of the GPU.
  std::string contradiction(const DeviceId& gpu) const;
  // Marks all errors counted so far as known.
  void acknowledge(const DeviceId& gpu) { gpus_[gpu].acknowledge(); }

  // Returns the state of a GPU's errors, to be stored. It is restored before the first verdict, or
  // as soon as it can be read.
  EccState errors_of(const DeviceId&) const;
  void restore(const DeviceId& gpu, const EccState& errors, bool rebooted);
  void remove(const DeviceId& gpu) {
    gpus_.erase(gpu);
    power_.erase(gpu);
  }

  HealthReport evaluate_health(const DeviceState&) const;

 private:
  HealthPolicy policy_;
  std::map<DeviceId, EccBaseline> gpus_;  // of one boot and driver; grows only with the GPUs seen
  std::map<DeviceId, PowerSources> power_;
  bool power_comparison_ = false;
};

}  // namespace gpuyard
