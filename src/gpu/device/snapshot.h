// All GPUs at one moment. Immutable once published and numbered, so that any thread may hold one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "device/reading.h"
#include "device/xid.h"
#include "gpuyard/health.h"

namespace gpuyard {

enum class DeviceCondition : std::uint8_t {
  responsive,
  unresponsive,  // a driver call is overdue; the readings are the last that came, with their age
  unavailable,   // the driver would not open it, or says it is lost
};
BOOST_DESCRIBE_ENUM(DeviceCondition, responsive, unresponsive, unavailable)

struct DeviceState {
  DeviceInfo info;
  DeviceCondition condition = DeviceCondition::responsive;
  std::string why;  // of a condition other than responsive
  Sample sample;
  std::uint64_t query_errors = 0;  // readings that failed since the daemon started
  HealthReport health = {};        // HealthWatch::judge() of all the above
  // Since the daemon started. Nothing: nobody counts them.
  std::optional<std::vector<XidCount>> xid_errors = {};

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};

// Why, if the driver says that the GPU is gone: no reading but of rows that say nothing, those that
// it does not support and the rare ones: a GPU that wants a reset still has a name.
const Missing* lost(const Sample&);
// Every row was one that says nothing: whether it is there is still not known.
bool says_nothing(const Sample&);

// The state of a GPU after one question for `probes`: unresponsive without an answer, unavailable
// if the driver would not open it or says it is lost.
DeviceState device_state(DeviceInfo, std::optional<Sample> answer, ProbeSet probes, TimePoint now);

// Whether there is a driver to ask at all.
struct DriverState {
  bool initialised = false;
  std::string why;  // not initialised: the driver's own words, e.g. "Driver Not Loaded"
  DriverInfo info;

  friend bool operator==(const DriverState&, const DriverState&) = default;
};

struct Snapshot {
  std::uint64_t generation = 0;
  TimePoint taken;
  WallTime wall;
  DriverState driver;
  std::vector<DeviceState> devices;  // by index

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Whether a person may call the GPU so: by index ("3"), UUID, or PCI address in either of its
// spellings ("0000:01:00.0", NVML's "00000000:01:00.0").
bool has_name(const DeviceInfo&, std::string_view name);

// The GPU that has this name. Else Errc::not_found.
Result<const DeviceState*> find_device(const Snapshot&, std::string_view name);

// A row's value wherever it lives: identity, driver or sample.
Reading reading_of(const Snapshot&, const DeviceState&, Metric, std::uint16_t index = 0);

// What the driver failed to give, among the readings that are missing.

// What a GPU does not support, or has no value for yet, is no failure.
bool is_failure(MissingReason);

// Each cause once: one lost GPU fails every row for one cause.
std::vector<Missing> failures(const Sample&);

// Whether a GPU is gone, as leases, rules and metrics are to say with one voice.

// The driver says so of any reading. A GPU that only does not answer is not lost, however bad its
// health; nor is one that cannot be opened now: it may be in use all the same.
bool is_lost(const DeviceState&);
// In the driver's words; nothing: it is not lost.
std::optional<Missing> lost_because(const DeviceState&);

}  // namespace gpuyard
