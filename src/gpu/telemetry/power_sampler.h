// Reads the power of GPUs up to a hundred times a second, and only while there is a listener. Lives
// on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/loop.h"
#include "gpu/device/device.h"

namespace gpuyard::telemetry {

// The probes that a burst reads. The second gives the power of this instant, if the GPU has that;
// the first is an average over a second from Ampere on (NVML's documentation of
// nvmlDeviceGetPowerUsage).
inline constexpr ProbeSet kBurstProbes = {Probe::power, Probe::power_fields};

inline constexpr Duration kShortestBurst = std::chrono::milliseconds(10);
inline constexpr Duration kLongestBurst = std::chrono::seconds(1);

// Receives power_draw_instant in milliwatts if the GPU has it, otherwise power_draw; or the reason
// why there is neither.
using OnPower = std::function<void(const Reading&)>;

class Burst {
 public:
  // `ask` requests a read of the GPU's kBurstProbes soon; on_sample() then gets the answer.
  Burst(Loop& loop, std::function<void(const DeviceId&)> ask) : loop_(loop), ask_(std::move(ask)) {}
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  // Calls `heard` with the power of one GPU every `period`, first as soon as it has been read. For
  // a GPU that does not answer it gets "timed out" once a second. The subscription may outlive this
  // object.
  Subscription listen(const DeviceId&, Duration period, OnPower);

  void on_sample(const DeviceId&, const Sample&);

  std::size_t listeners() const;

 private:
  struct Listener {
    Duration period;
    TimePoint due;
    OnPower heard;
  };
  struct Gpu {
    std::map<std::uint64_t, Listener> listeners;
    std::optional<TimePoint> asked;  // the time of the last unanswered request
    Subscription timer;
  };

  void poll(const DeviceId&);
  void tell(const DeviceId&, const Reading&);
  void leave(const DeviceId&, std::uint64_t listener);

  Loop& loop_;
  std::function<void(const DeviceId&)> ask_;
  Lifetime here_;
  std::map<DeviceId, Gpu> gpus_;  // GPUs with listeners
  std::uint64_t next_ = 1;
};

}  // namespace gpuyard::telemetry
