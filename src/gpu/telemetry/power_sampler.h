// Reads the power of GPUs up to a hundred times a second, and only while there is a listener.
// Thread: io.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/lifetime.h"
#include "base/loop.h"
#include "gpu/device/device.h"

namespace gpuyard::telemetry {

// The probes that the sampler reads. The second gives the power of this instant, if the GPU has
// that; the first is an average over a second from Ampere on (NVML's documentation of
// nvmlDeviceGetPowerUsage).
inline constexpr ProbeSet kPowerProbes = {Probe::power, Probe::power_fields};

inline constexpr Duration kMinPowerInterval = std::chrono::milliseconds(10);
inline constexpr Duration kMaxPowerInterval = std::chrono::seconds(1);

// Receives power_draw_instant in milliwatts if the GPU has it, otherwise power_draw; or the reason
// why there is neither.
using OnPower = std::function<void(const Reading&)>;

class PowerSampler {
 public:
  // `request_read` requests a read of the GPU's kPowerProbes soon; on_sample() then gets the reply.
  PowerSampler(Loop& loop, std::function<void(const DeviceId&)> request_read)
      : loop_(loop), request_read_(std::move(request_read)) {}
  PowerSampler(const PowerSampler&) = delete;
  PowerSampler& operator=(const PowerSampler&) = delete;

  // Calls the OnPower with the power of one GPU every `period`, first as soon as it has been read.
  // For a GPU that does not answer it gets "timed out" once a second. The subscription may outlive
  // this object.
  Subscription subscribe(const DeviceId&, Duration period, OnPower);

  void on_sample(const DeviceId&, const Sample&);

 private:
  struct Subscriber {
    Duration period;
    TimePoint due_at;
    OnPower on_power;
  };
  struct Gpu {
    std::map<std::uint64_t, Subscriber> subscribers;
    std::optional<TimePoint> requested_at;  // the time of the last unanswered request
    Subscription timer;
  };

  void poll(const DeviceId&);
  void notify(const DeviceId&, const Reading&);
  void unsubscribe(const DeviceId&, std::uint64_t listener);

  Loop& loop_;
  std::function<void(const DeviceId&)> request_read_;
  Lifetime lifetime_;
  std::map<DeviceId, Gpu> gpus_;  // GPUs with listeners
  std::uint64_t next_ = 1;
};

}  // namespace gpuyard::telemetry
