// What is known at one moment of all that rules may look at. Missing is nothing, never 0.
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
#include "device/snapshot.h"

namespace gpuyard::andon {

// What a rule can look at, beside the readings of the metric catalog: quantities that say something
// of a GPU, or of the machine. Data; where the numbers come from is facts.h's matter.

enum class Signal : std::uint8_t {
  // Of a GPU.
  temperature,
  slowdown_margin,
  memory_used,
  power_used,
  idle,
  reserved_idle,
  health,
  lost,
  unresponsive,
  stale,
  thermal_slowdown,
  power_brake,
  fan_stopped,
  pcie_degraded,
  squatters,
  // Of the machine.
  driver_down,
  journal_down,
  disk_free,
  sink_failing,
};
inline constexpr std::size_t kSignals = 19;

struct SignalRow {
  Signal signal;
  std::string_view name;  // in a rule: on = "memory_used_percent"
  bool of_node;
  std::string_view help;
};

// In the order of the enumeration.
std::span<const SignalRow> signals();
const SignalRow& row_of(Signal);

// A number, or nothing: not known.
class Signals {
 public:
  std::optional<double>& operator[](Signal signal) {
    return values_.at(static_cast<std::size_t>(signal));
  }
  const std::optional<double>& operator[](Signal signal) const {
    return values_.at(static_cast<std::size_t>(signal));
  }

 private:
  std::array<std::optional<double>, kSignals> values_;
};

struct GpuFacts {
  DeviceInfo info;
  Signals signals;
  std::string why = {};  // of its health or its condition, as a sentence; "" where all is well
  // Null while the GPU does not answer: its last readings are of another time. Lives as long as the
  // snapshot.
  const Sample* sample = nullptr;
};

struct Facts {
  bool simulated = false;
  std::vector<GpuFacts> gpus;
  Signals node;
};

// What others know of a GPU.
struct LeaseFacts {
  std::optional<bool> leased = {};
  std::optional<std::size_t> squatters = {};
};

// Remembers what one snapshot cannot tell: since when a GPU is idle. Pure: it is told the time.
class FactBook {
 public:
  // `leases`: by GPU; who is not in it is not known.
  Facts note(const Snapshot&, const std::map<DeviceId, LeaseFacts>& leases, TimePoint now);

 private:
  // For how long it is so, as far as that is known: what is not known is left out.
  class Lasting {
   public:
    // Seconds; 0: it is not so.
    std::optional<double> note(std::optional<bool> is, TimePoint now);

   private:
    std::optional<TimePoint> last_;  // when it was so, if nothing else was found since
    Duration so_far_{};
  };
  struct Idle {
    Lasting in_use;
    Lasting leased;
  };

  GpuFacts note_gpu(const DeviceState&, const LeaseFacts&, TimePoint now);
  void note_idle(const DeviceState&, const LeaseFacts&, Signals&, TimePoint now);

  std::map<DeviceId, Idle> idle_;
};

}  // namespace gpuyard::andon
