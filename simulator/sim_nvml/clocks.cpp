// Clocks, why they are where they are, and the performance state.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kPerformanceStateP0 = 0;

std::optional<std::uint32_t> clock_now(const Device& device, unsigned type) {
  switch (type) {
    case kClockGraphics:
    case kClockSm:
      return device.record.sm_clock_mhz;
    case kClockMemory:
      return device.record.memory_clock_mhz;
    case kClockVideo:
      return device.record.video_clock_mhz;
    default:
      return std::nullopt;
  }
}

std::optional<std::uint32_t> highest_clock(const Device& device, unsigned type) {
  switch (type) {
    case kClockGraphics:
    case kClockSm:
      return device.model.clocks.max_sm;
    case kClockMemory:
      return device.model.max_memory_clock_mhz();
    case kClockVideo:
      return device.model.clocks.max_video;
    default:
      return std::nullopt;
  }
}

template <class Choose>
ReturnCode read_clock(DeviceHandle handle, unsigned type, unsigned* out, Choose&& choose) {
  return sim_nvml::on_device(Call::clock_info, handle, out != nullptr, [&](const Device& device) {
    const auto clock = choose(device, type);
    if (!clock) return kInvalidArgument;
    *out = *clock;
    return kSuccess;
  });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetClockInfo(DeviceHandle handle, unsigned type, unsigned* mhz) {
  return read_clock(handle, type, mhz, clock_now);
}

SIM_NVML_ENTRY nvmlDeviceGetMaxClockInfo(DeviceHandle handle, unsigned type, unsigned* mhz) {
  return read_clock(handle, type, mhz, highest_clock);
}

SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksEventReasons(DeviceHandle handle,
                                                      unsigned long long* reasons) {
  return sim_nvml::read_one(Call::throttle_reasons, handle, reasons,
                            [](const Device& d) { return d.record.clock_reasons; });
}

// The same under its older name.
SIM_NVML_ENTRY nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle handle,
                                                         unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(handle, reasons);
}

// A data-centre GPU stays in P0 when it idles; its clocks alone come down.
SIM_NVML_ENTRY nvmlDeviceGetPerformanceState(DeviceHandle handle, unsigned* state) {
  return sim_nvml::read_one(Call::performance_state, handle, state,
                            [](const Device&) { return kPerformanceStateP0; });
}
