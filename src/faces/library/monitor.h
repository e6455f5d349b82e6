// Reads GPUs from this very process, without a daemon, through the same threads as the driver-host.
// It shares its fate with the driver: a call that never returns from the kernel leaves a thread
// behind that even _exit() cannot end. The daemon's child process exists for that; a program that
// must survive a dying GPU uses the daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/device/backend.h"
#include "gpu/device/gpu_snapshot.h"
#include "gpu/device/health.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::library {

// Thread: any, for const member functions.
class Monitor {
 public:
  static constexpr Duration kDefaultTimeout = std::chrono::seconds(2);
  static constexpr Duration kInitTimeout = std::chrono::seconds(15);  // a cold NVML takes seconds

  // Errors are init_error() and query_error().
  // A GPU that does not open in time is listed with that fault.
  // Uncorrectable ECC errors count as new from here on.
  static Result<Monitor> open(std::shared_ptr<Backend>, Duration timeout = kDefaultTimeout,
                              HealthPolicy = {});

  Monitor(Monitor&&) noexcept;
  Monitor& operator=(Monitor&&) noexcept;
  ~Monitor();

  // Returns what the driver said about itself at construction. Does not wait.
  const DriverInfo& driver() const;

  // Returns how many GPUs were found at construction. Does not wait.
  std::uint32_t gpu_count() const;

  // Returns one of these GPUs; nullptr beyond the last. It lives as long as the monitor.
  const DeviceInfo* device(std::uint32_t index) const;

  // Returns every GPU found at construction, each with its readings or why there are none. Waits at
  // most `timeout`; a GPU that does not answer by then is listed as unresponsive.
  // Reads only what fills `probes`. All of them take 40 ms and more: the driver measures PCIe
  // traffic for that long.
  Snapshot inventory(Duration timeout = kDefaultTimeout, ProbeSet probes = ProbeSet::all()) const;

  // Returns the GPUs that are visible now: inventory() without those that are gone. May be fewer
  // than gpu_count(); one bad GPU cannot fail it.
  Snapshot snapshot(Duration timeout = kDefaultTimeout, ProbeSet probes = ProbeSet::all()) const;

  // Reads one number now. Errors: index_range_error(), unsupported_feature_error(), query_error().
  Result<std::int64_t> read(std::uint32_t index, Metric, Duration timeout = kDefaultTimeout) const;

  // Reads a GPU now and returns the verdict on it. Error: index_range_error().
  Result<HealthReport> health(std::uint32_t index, Duration timeout = kDefaultTimeout) const;

  // Marks a GPU's uncorrectable ECC errors so far as known: they no longer make it unhealthy.
  // Error: index_range_error().
  Result<void> acknowledge_ecc_errors(std::uint32_t index) const;

  // Returns snapshot() in the small view.
  std::vector<GpuMetrics> collect_metrics(Duration timeout = kDefaultTimeout) const;

 private:
  struct State;
  explicit Monitor(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace gpuyard::library
