// All that rules may evaluate, at one moment. An unknown value is empty, never 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu/device/nvlinks.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::andon {

// The signals: quantities of a GPU or of the machine that a rule can evaluate, beside the readings
// of the metric catalog. The table is data; FactCollector finds the numbers.

enum class Signal : std::uint8_t {
  // Signals of a GPU.
  temperature,
  slowdown_margin,
  memory_used,
  power_used,
  idle,
  reserved_idle,
  health,
  lost,
  missing,
  unresponsive,
  unreadable,
  inforom_corrupted,
  stale,
  thermal_slowdown,
  power_brake,
  fan_stopped,
  pcie_degraded,
  nvlinks_down,
  readings_contradict,
  unleased_processes,
  // Signals of the machine.
  driver_down,
  gpus,
  gpus_missing,
  journal_down,
  disk_free,
  sink_failing,
  certificate_days,
  certificate_refused,
  listeners_closed,
  token_days,
  slurm_trouble,
};
inline constexpr std::size_t kSignalCount = 31;

struct SignalRow {
  Signal signal;
  std::string_view name;  // in a rule: on = "memory_used_percent"
  bool of_node;
  std::string_view help;
};

// In the order of the enumeration.
std::span<const SignalRow> signals();
const SignalRow& row_of(Signal);

// A number for each signal; empty if it is not known.
class Signals {
 public:
  std::optional<double>& operator[](Signal signal) {
    return values_.at(static_cast<std::size_t>(signal));
  }
  const std::optional<double>& operator[](Signal signal) const {
    return values_.at(static_cast<std::size_t>(signal));
  }

 private:
  std::array<std::optional<double>, kSignalCount> values_;
};

struct GpuFacts {
  DeviceInfo info;
  Signals signals;
  std::string why = {};  // what is wrong with its health or condition, as a sentence; or ""
  // Null while the GPU does not answer, because its last readings are outdated. Lives as long as
  // the snapshot.
  const Sample* sample = nullptr;
};

struct Facts {
  bool simulated = false;
  std::vector<GpuFacts> gpus;
  Signals node;
};

// The facts that the lease manager knows of a GPU.
struct LeaseFacts {
  std::optional<bool> leased = {};
  std::optional<std::size_t> unleased_processes = {};
};

// Remembers what one snapshot does not show: since when a GPU is idle, and which of its NVLinks
// were up. Pure: the caller passes the time.
class FactCollector {
 public:
  // `leases`: by GPU; a GPU that is not in it is not known.
  Facts collect(const Snapshot&, const std::map<DeviceId, LeaseFacts>& leases, TimePoint now);

 private:
  // Measures how long something has lasted. Time in which it is not known whether it lasts does not
  // count.
  class DurationTracker {
   public:
    // Returns seconds: 0 if it does not last now, nothing if that is not known.
    std::optional<double> update(std::optional<bool> active, TimePoint now);

   private:
    std::optional<TimePoint> last_true_at_;  // the last time it held; empty after anything else
    Duration elapsed_{};
  };
  struct Idle {
    DurationTracker in_use;
    DurationTracker leased;
  };

  GpuFacts collect_gpu(const DeviceState&, const LeaseFacts&, TimePoint now);
  void update_idle(const DeviceState&, const LeaseFacts&, Signals&, TimePoint now);

  std::map<DeviceId, Idle> idle_;
  std::map<DeviceId, NvlinkTracker> nvlink_trackers_;
};

}  // namespace gpuyard::andon
