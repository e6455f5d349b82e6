// The power of GPUs as often as somebody wants it, up to a hundred times a second, and only while
// somebody does. Lives on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/loop.h"
#include "device/device.h"

namespace gpuyard::telemetry {

// What a burst reads. The second has the power of this instant, where a GPU has that; the first is
// an average over a second from Ampere on (NVML's documentation of nvmlDeviceGetPowerUsage).
inline constexpr ProbeSet kBurstProbes = {Probe::power, Probe::power_fields};

inline constexpr Duration kShortestBurst = std::chrono::milliseconds(10);
inline constexpr Duration kLongestBurst = std::chrono::seconds(1);

// power_draw_instant in milliwatts where the GPU has it, else power_draw; or why there is neither.
using PowerHeard = std::function<void(const Reading&)>;

class Burst {
 public:
  // `ask`: has kBurstProbes of this GPU read soon, and on_sample() called with them.
  Burst(Loop& loop, std::function<void(const DeviceId&)> ask) : loop_(loop), ask_(std::move(ask)) {}
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  // Hears of one GPU every `period`, for the first time as soon as it has been read. A GPU that
  // does not answer is told as timed out, once a second.
  // The subscription may outlive this.
  Subscription listen(const DeviceId&, Duration period, PowerHeard);

  void on_sample(const DeviceId&, const Sample&);

  std::size_t listeners() const;

 private:
  struct Listener {
    Duration period;
    TimePoint due;
    PowerHeard heard;
  };
  struct Gpu {
    std::map<std::uint64_t, Listener> listeners;
    std::optional<TimePoint> asked;  // without an answer since
    Subscription timer;
  };

  void poll(const DeviceId&);
  void tell(const DeviceId&, const Reading&);
  void leave(const DeviceId&, std::uint64_t listener);

  Loop& loop_;
  std::function<void(const DeviceId&)> ask_;
  Lifetime here_;
  std::map<DeviceId, Gpu> gpus_;  // those that somebody listens to
  std::uint64_t next_ = 1;
};

}  // namespace gpuyard::telemetry
