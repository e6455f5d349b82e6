// The verdict on a GPU, as a pure function of what is known of it: healthy, degraded, unhealthy, or
// not known. Unknown is never an alarm, and never healthy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include <boost/describe.hpp>

#include "device/device.h"
#include "device/metric.h"
#include "device/snapshot.h"
#include "gpuyard/health.h"

namespace gpuyard {

// Which of a GPU's uncorrectable memory errors are new: growth of the driver's counter since
// somebody last acknowledged it.

class EccBaseline {
 public:
  // The counter as it is now. The first one is the baseline: what happened before we looked is not
  // new. A counter that fell was cleared, and another `source` is another counter: each starts
  // over.
  void count(Metric source, std::int64_t total);

  // What happened so far is known.
  void acknowledge();

  // The hardware contained one of the errors (Xid 94): it costs this process and nothing else.
  void contained(std::uint32_t pid);
  // The same, but nobody says which of these it was: all have to end.
  void contained_in_one_of(const std::set<std::uint32_t>& pids);
  // Now somebody does.
  void it_was(std::uint32_t pid);
  // The process has ended, and what was contained with it.
  void process_gone(std::uint32_t pid);
  std::set<std::uint32_t> waiting_for() const;

  // Neither acknowledged nor contained.
  std::int64_t fresh() const;

 private:
  void start_over(std::int64_t base);

  Metric source_{};
  bool counted_ = false;
  std::int64_t base_ = 0;
  std::int64_t total_ = 0;
  std::int64_t contained_ = 0;
  std::set<std::uint32_t> waiting_;
  std::set<std::uint32_t> suspects_;
};

BOOST_DESCRIBE_ENUM(Health, healthy, degraded, unhealthy)

// Which thresholds hold for which GPU.
struct HealthPolicy {
  HealthThresholds common;
  std::map<std::string, HealthThresholds> of_gpu;  // by index, UUID or PCI address

  const HealthThresholds& thresholds_of(const DeviceInfo&) const;
};

// What the verdict looks at.
struct HealthFacts {
  std::optional<Missing> lost;                      // the driver says that the GPU is gone
  std::variant<Missing, std::int64_t> temperature;  // of the core, C
  std::variant<Missing, std::int64_t> ecc_errors;  // uncorrectable ones, any that were ever counted
  std::int64_t new_ecc_errors = 0;                 // of these: neither acknowledged nor contained
  std::size_t contained = 0;                       // processes hit by a contained one, still alive
};

// The worst of the findings, with all of them as reasons. Without any: healthy if everything is
// known, else nothing with what is not known as reasons. A GPU without ECC misses nothing; one
// whose temperature nobody can read is not known to be healthy.
HealthReport judge(const HealthFacts&, const HealthThresholds&);

// The health of each GPU over time: what the pure verdict cannot know, which ECC errors are new and
// which were contained. Not thread safe; its owner guards it.

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
