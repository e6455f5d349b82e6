// The only door to one vendor's hardware.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/describe.hpp>

#include "base/result.h"
#include "device/device.h"
#include "device/event.h"
#include "device/metric.h"
#include "device/reading.h"
#include "device/setting.h"

namespace gpuyard {

// What the driver says of itself once it is open.
struct DriverSession {
  DriverInfo driver;
  std::uint32_t gpu_count = 0;
};

// A call may block for milliseconds, or for ever when a GPU is dying: whoever calls keeps a thread
// per GPU, and one for events. open() and read() may be called for different GPUs at the same time,
// and never twice at once for one; so may what changes a GPU, also while it is read. One bad GPU is
// a missing reading or a DeviceInfo::fault, never a failed call.
class Backend {
 public:
  virtual ~Backend() = default;

  // Opens the driver on first use. Errors are init_failed() or query_failed().
  virtual Result<DriverSession> start() = 0;

  // The GPU at an index below gpu_count. One with a fault may be opened again later.
  virtual DeviceInfo open(std::uint32_t index) = 0;

  // Every row the probes fill is in the sample: a value, or why it is missing.
  virtual Sample read(const DeviceId&, ProbeSet) = 0;

  // What happens next to any GPU that is open; nothing if `at_most` passes first. Events that came
  // before the first call are not told. Errc::unsupported: there are none here and never will be;
  // another error may be for now, and comes at once, so that whoever calls again waits before.
  virtual Result<std::optional<DeviceEvent>> next_event(Duration /*at_most*/) {
    return Error{Errc::unsupported, "this driver tells no events"};
  }

  // Whether this process may change anything; Errc::denied says what is missing and how to get it.
  virtual Result<void> may_control() { return {}; }

  // The rest is about a GPU that is open. Errors mean what the driver meant: unsupported, denied,
  // invalid, device_lost, not_found where no such GPU is open.
  virtual Result<SettingState> look(const DeviceId&, SettingKind) { return no_control(); }
  virtual Result<void> apply(const DeviceId&, const Setting&) { return no_control(); }
  virtual Result<void> clear_ecc(const DeviceId&, EccCounter) { return no_control(); }
  // Millijoules since the driver was loaded.
  virtual Result<std::int64_t> total_energy(const DeviceId&) { return no_control(); }

 private:
  static Error no_control() { return {Errc::unsupported, "these GPUs cannot be controlled"}; }
};

// One question to one GPU's driver, and its answer: what crosses between whoever wants readings and
// whoever may call the driver.

struct ReadRequest {
  std::uint64_t id = 0;  // chosen by the asker, given back with the answer
  DeviceId device;
  ProbeSet probes;
};
BOOST_DESCRIBE_STRUCT(ReadRequest, (), (id, device, probes))

struct ReadReply {
  std::uint64_t id = 0;
  DeviceId device;
  Sample sample;  // every row the probes fill
};
BOOST_DESCRIBE_STRUCT(ReadReply, (), (id, device, sample))

}  // namespace gpuyard
