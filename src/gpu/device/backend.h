// The only interface to one vendor's hardware.
#pragma once

#include <cstdint>
#include <optional>

#include <boost/describe.hpp>

#include "base/result.h"
#include "gpu/device/command.h"
#include "gpu/device/device.h"
#include "gpu/device/event.h"
#include "gpu/device/metric.h"
#include "gpu/device/reading.h"
#include "gpu/device/setting.h"

namespace gpuyard {

// The driver's report about itself, once it is open.
struct DriverSession {
  DriverInfo driver;
  std::uint32_t gpu_count = 0;
  bool own_time = false;  // see Inventory
};

// A call may block for milliseconds, or for ever when a GPU is dying: the caller keeps one thread
// per GPU and one for events. A bad GPU causes a missing reading or a DeviceInfo::fault, never a
// failed call.
// Thread: any. REQUIRES: for one GPU, one open() or read() at a time, and one call that changes it,
// which may overlap with its reads.
class Backend {
 public:
  virtual ~Backend() = default;

  // Opens the driver on first use. Errors are init_error() or query_error().
  virtual Result<DriverSession> start() = 0;

  // Opens the GPU at an index below gpu_count. A GPU with a fault may be opened again later.
  virtual DeviceInfo open(std::uint32_t index) = 0;

  // Reads a sample that has every row the probes fill: a value, or why it is missing.
  virtual Sample read(const DeviceId&, ProbeSet) = 0;

  // Waits for the next event of any open GPU; returns nothing if `timeout` passes first. Does not
  // report events from before the first call. Errc::unsupported: this driver never reports events.
  // Any other error may be temporary and returns at once, so the caller pauses before it calls
  // again.
  virtual Result<std::optional<DeviceEvent>> next_event(Duration /*timeout*/) {
    return Error{Errc::unsupported, "this driver reports no events"};
  }

  // Checks whether this process may change anything; Errc::denied says what is missing and how to
  // get it.
  virtual Result<void> check_control() { return {}; }

  // The other calls need a GPU that is open. Errors mean what the driver meant: unsupported,
  // denied, invalid, device_lost; not_found if no such GPU is open.
  virtual Result<SettingState> read_setting(const DeviceId&, SettingKind) {
    return unsupported_error();
  }
  virtual Result<void> apply(const DeviceId&, const Setting&) { return unsupported_error(); }
  virtual Result<void> clear_ecc(const DeviceId&, EccCounter) { return unsupported_error(); }
  // Returns millijoules since the driver was loaded.
  virtual Result<std::int64_t> total_energy(const DeviceId&) { return unsupported_error(); }

 private:
  static Error unsupported_error() {
    return {Errc::unsupported, "these GPUs cannot be controlled"};
  }
};

// One query of one GPU's driver and its reply: the messages between the code that wants readings
// and the code that may call the driver.
struct ReadRequest {
  std::uint64_t id = 0;  // chosen by the requester, returned with the reply
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
