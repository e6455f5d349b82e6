// All GPUs at one moment. A published snapshot is immutable and numbered, so any thread may hold
// one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device/bottleneck.h"
#include "gpu/device/catalog.h"
#include "gpu/device/device.h"
#include "gpu/device/reading.h"
#include "gpu/device/xid.h"
#include "gpuyard/health.h"

namespace gpuyard {

enum class DeviceCondition : std::uint8_t {
  responsive,
  unresponsive,  // a driver call is overdue; the last readings are kept, with their age
  unavailable,   // the driver did not open it, says it is lost, or gives no reading of it
};
BOOST_DESCRIBE_ENUM(DeviceCondition, responsive, unresponsive, unavailable)

// The readings without which a GPU is not watched.
inline constexpr std::array kVitals = {Metric::temperature_core, Metric::power_draw,
                                       Metric::memory_used};

// Runtime power management of a GPU that the kernel may suspend while it is idle.
struct RuntimeSuspend {
  // The GPU is idle and not read, so that the kernel can suspend it: its readings are old on
  // purpose.
  bool polling_paused = false;
  std::optional<TimePoint> asleep_since = {};  // while it is suspended

  friend bool operator==(const RuntimeSuspend&, const RuntimeSuspend&) = default;
};

struct DeviceState {
  DeviceInfo info;
  DeviceCondition condition = DeviceCondition::responsive;
  std::string why;  // the reason for a condition other than responsive
  Sample sample;
  std::uint64_t query_errors = 0;  // readings that failed since the daemon started
  HealthReport health = {};        // HealthTracker::evaluate_health() of the members above
  // Counted since the daemon started; empty if they are not counted.
  std::optional<std::vector<XidCount>> xid_errors = {};
  std::optional<Bottleneck> bottleneck = {};  // why it is slow; empty if not evaluated
  // The time when one of kVitals last had a value, or the GPU was first read; empty after one
  // query.
  std::optional<TimePoint> vitals_at = {};
  // The contradiction between its sources of power, so that none of them is believed; or "".
  std::string contradiction = {};
  std::optional<RuntimeSuspend> runtime_suspend = {};  // empty: the GPU is never suspended

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};

// True for an idle GPU that telemetry does not poll, so that the kernel can suspend it.
bool is_polling_paused(const DeviceState&);
// Since when the GPU is suspended; empty while it is not.
std::optional<TimePoint> asleep_since(const DeviceState&);

// Returns why the GPU is gone, if the driver says so in every reading. Ignores rows that the GPU
// does not support and rare rows, which prove nothing: a GPU that needs a reset still has a name.
const Missing* find_loss(const Sample&);
// True if the sample only has such rows: it is still unknown whether the GPU is there.
bool is_inconclusive(const Sample&);
// Returns why, if every reading of the GPU fails; a reading that was never taken does not count.
const Missing* unreadable_reason(const Sample&);

// Returns the state of a GPU after one query of `probes`: unresponsive without an answer,
// unavailable if the driver did not open it or says it is lost.
DeviceState device_state(DeviceInfo, std::optional<Sample> sample, ProbeSet probes, TimePoint now);

// Tells whether there is a working driver.
struct DriverState {
  bool initialised = false;
  std::string why;  // if not initialised: the driver's own words, e.g. "Driver Not Loaded"
  DriverInfo info;

  friend bool operator==(const DriverState&, const DriverState&) = default;
};

struct Snapshot {
  std::uint64_t generation = 0;
  TimePoint taken;
  WallTime wall;
  DriverState driver;
  std::vector<DeviceState> devices;   // by index
  Duration interval = kFastInterval;  // between two snapshots

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// The longest time between two readings that counts as uninterrupted: what the GPU did within it
// follows from both.
Duration max_step(const Snapshot&);

// True if the user may call the GPU by this name: its index ("3"), UUID, or PCI address in either
// spelling ("0000:01:00.0", NVML's "00000000:01:00.0").
bool has_name(const DeviceInfo&, std::string_view name);

// Finds the GPU with this name; Errc::not_found if there is none.
Result<const DeviceState*> find_device(const Snapshot&, std::string_view name);

// A row that the GPU does not support, or that has no value yet, is no failure.
bool is_failure(MissingReason);

// Returns each cause once: a lost GPU fails every row for one cause.
std::vector<Missing> failures(const Sample&);

// Decides whether a GPU is lost, for leases, rules and metrics alike. True if the driver says so in
// any reading. A GPU that only does not answer is not lost, however bad its health; nor is one that
// cannot be opened now, because it may still be in use.
bool is_lost(const DeviceState&);
// Returns the driver's reason; nothing if the GPU is not lost.
std::optional<Missing> loss_reason(const DeviceState&);

}  // namespace gpuyard
