// Evaluates a GPU's health as a pure function of what is known of it: healthy, degraded, unhealthy,
// or unknown. Unknown is never an alarm and never healthy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "gpu/device/device.h"
#include "gpu/device/metric.h"
#include "gpu/device/power_sources.h"
#include "gpu/device/snapshot.h"
#include "gpuyard/health.h"

namespace gpuyard {

// The facts about a GPU's uncorrectable memory errors. A plain value: it outlives the daemon, so
// that a restart neither ends a verdict nor makes errors new.
struct EccState {
  std::optional<Metric> source;            // the counter; empty: none was read yet
  std::int64_t base = 0;                   // errors that are known
  std::int64_t total = 0;                  // the counter's last value
  std::optional<std::int64_t> since_load;  // last value of the counter that a reset sets to 0
  std::int64_t contained = 0;              // errors after `base` that cost one process each
  std::vector<std::uint32_t> contained_pids = {};  // processes that a contained error has hit
  std::vector<std::uint32_t> suspects = {};        // one of these was hit, too

  friend bool operator==(const EccState&, const EccState&) = default;
};

// Finds which of a GPU's uncorrectable memory errors are new: the growth of the driver's counter
// since the last acknowledgement, reset or reboot.

class EccBaseline {
 public:
  // Goes on from an earlier daemon's state. After a reboot its errors are known: only those that
  // came since then are new.
  void restore(const EccState&, bool rebooted);
  EccState state() const;

  // Takes the counter's present value. The first value is the baseline: earlier errors are not new.
  // A counter that fell was cleared, and starts over. `since_load` is the value of the counter that
  // starts at 0 with each load of the driver and each reset: if it fell, that was seen, and errors
  // from before are known. While another `source` is read, new errors stay new.
  void update(Metric source, std::int64_t total, std::optional<std::int64_t> since_load = {});

  // Marks all errors so far as known.
  void acknowledge();

  // The hardware contained one of the errors (Xid 94): it costs this process and nothing else.
  void add_contained(std::uint32_t pid);
  // The same, but the process is not known: all of these have to end.
  void add_contained_suspects(const std::set<std::uint32_t>& pids);
  // Names the process afterwards.
  void identify_contained(std::uint32_t pid);
  // The process has ended, and with it the errors contained in it.
  void remove_process(std::uint32_t pid);
  std::set<std::uint32_t> contained_pids() const;

  // Returns the errors that are neither acknowledged nor contained.
  std::int64_t new_errors() const;

 private:
  void restart(std::int64_t base);
  void on_reset(Metric source, std::int64_t since_load);

  std::optional<Metric> source_;
  std::int64_t base_ = 0;
  std::int64_t total_ = 0;
  std::optional<std::int64_t> since_load_;
  bool rebooted_ = false;  // since the restored state, and not counted yet
  std::int64_t contained_ = 0;
  std::set<std::uint32_t> contained_pids_;
  std::set<std::uint32_t> suspects_;
};

BOOST_DESCRIBE_ENUM(Health, healthy, degraded, unhealthy)

// Chooses the thresholds of each GPU.
struct HealthPolicy {
  HealthThresholds common;
  std::map<std::string, HealthThresholds> of_gpu;  // by index, UUID or PCI address

  const HealthThresholds& thresholds_of(const DeviceInfo&) const;
};

// The facts that the verdict is based on.
struct HealthFacts {
  std::optional<Missing> lost;                      // the driver says that the GPU is gone
  std::variant<Missing, std::int64_t> temperature;  // of the core, C
  std::variant<Missing, std::int64_t> ecc_errors;   // all uncorrectable errors ever counted
  std::int64_t new_ecc_errors = 0;                  // those neither acknowledged nor contained
  std::size_t contained = 0;                        // live processes hit by a contained error
  std::string contradiction = {};                   // PowerSources::contradiction()
};

// Returns the worst finding, with all findings as reasons. Without findings: healthy if everything
// is known; otherwise no verdict, with the unknown values as reasons. A GPU without ECC lacks
// nothing; a GPU whose temperature cannot be read is not known to be healthy.
HealthReport evaluate_health(const HealthFacts&, const HealthThresholds&);

// Keeps the health of each GPU over time. It adds what the pure verdict cannot know: which ECC
// errors are new and which were contained. Not thread-safe; its owner guards it.

// The probes that the verdict needs.
inline constexpr ProbeSet kHealthProbes = {Probe::temperature, Probe::ecc_totals};

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
