// Current and possible clocks, and the performance state.
#include <ranges>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

constexpr unsigned kClockTypes = 4;  // graphics, SM, memory, video
constexpr unsigned kClockIds = 4;

using Clocks = std::array<std::uint32_t, kClockTypes>;  // by nvmlClockType_t

Clocks clocks_now(const Device& d) {
  return {d.record.sm_clock_mhz, d.record.sm_clock_mhz, d.record.memory_clock_mhz,
          d.record.video_clock_mhz};
}

Clocks highest_clocks(const Device& d) {
  const sim::ClockTable& clocks = d.model.clocks;
  return {clocks.max_sm, clocks.max_sm, d.model.max_memory_clock_mhz(), clocks.max_video};
}

// GeForce parts have neither application clocks nor the ceiling for customers' boards.
bool has_application_clocks(const Device& d) {
  return d.model.clocks.default_application_sm != 0;
}

Clocks application_clocks(const Device& d) {
  const std::uint32_t sm = d.model.clocks.default_application_sm;
  return {sm, sm, d.model.max_memory_clock_mhz(), 0};
}

// A clock that the model does not have is 0 in its row.
std::optional<std::uint32_t> clock_of(const Device& d, unsigned type, unsigned id) {
  if (id == kClockIdCurrent) return clocks_now(d)[type];
  if (!has_application_clocks(d)) return std::nullopt;
  if (id == kClockIdCustomerBoostMax) return highest_clocks(d)[type];
  const std::uint32_t mhz = application_clocks(d)[type];
  return optional_if(mhz != 0, mhz);
}

// `known`: whether the caller's numbers are valid.
template <class Choose>
ReturnCode read_clock(Call call, DeviceHandle handle, bool known, unsigned* out, Choose&& choose) {
  return read_one(call, handle, known ? out : nullptr, choose);
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetClockInfo(DeviceHandle handle, unsigned type, unsigned* mhz) {
  return read_clock(Call::clock_info, handle, type < kClockTypes, mhz,
                    [&](const Device& d) { return clocks_now(d)[type]; });
}

SIM_NVML_ENTRY nvmlDeviceGetMaxClockInfo(DeviceHandle handle, unsigned type, unsigned* mhz) {
  return read_clock(Call::max_clocks, handle, type < kClockTypes, mhz,
                    [&](const Device& d) { return highest_clocks(d)[type]; });
}

SIM_NVML_ENTRY nvmlDeviceGetClock(DeviceHandle handle, unsigned type, unsigned id, unsigned* mhz) {
  return read_clock(Call::clock_info, handle, type < kClockTypes && id < kClockIds, mhz,
                    [&](const Device& d) { return clock_of(d, type, id); });
}

SIM_NVML_ENTRY nvmlDeviceGetMaxCustomerBoostClock(DeviceHandle handle, unsigned type,
                                                  unsigned* mhz) {
  return nvmlDeviceGetClock(handle, type, kClockIdCustomerBoostMax, mhz);
}

SIM_NVML_ENTRY nvmlDeviceGetApplicationsClock(DeviceHandle handle, unsigned type, unsigned* mhz) {
  return nvmlDeviceGetClock(handle, type, kClockIdApplicationTarget, mhz);
}

SIM_NVML_ENTRY nvmlDeviceGetDefaultApplicationsClock(DeviceHandle handle, unsigned type,
                                                     unsigned* mhz) {
  return nvmlDeviceGetClock(handle, type, kClockIdApplicationDefault, mhz);
}

SIM_NVML_ENTRY nvmlDeviceGetSupportedMemoryClocks(DeviceHandle handle, unsigned* count,
                                                  unsigned* mhz) {
  return on_device(Call::max_clocks, handle, is_list(count, mhz), [&](const Device& device) {
    return put_list(sim::supported_memory_clocks(device.model), count, mhz,
                    [](std::uint32_t clock) { return clock; });
  });
}

// Highest first, as a driver lists them.
SIM_NVML_ENTRY nvmlDeviceGetSupportedGraphicsClocks(DeviceHandle handle, unsigned memory_mhz,
                                                    unsigned* count, unsigned* mhz) {
  return on_device(Call::max_clocks, handle, is_list(count, mhz), [&](const Device& device) {
    const auto range = sim::supported_sm_clocks(device.model, memory_mhz);
    if (range.highest == 0) return kNotFound;
    const unsigned step = device.model.clocks.sm_step;
    const unsigned steps = (range.highest - range.lowest) / step + 1;
    return put_list(std::views::iota(0U, steps), count, mhz,
                    [&](unsigned i) { return range.lowest + (steps - 1 - i) * step; });
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPerformanceState(DeviceHandle handle, unsigned* state) {
  return read_one(Call::performance_state, handle, state, &sim::GpuRecord::performance_state);
}

// The same under its older name.
SIM_NVML_ENTRY nvmlDeviceGetPowerState(DeviceHandle handle, unsigned* state) {
  return nvmlDeviceGetPerformanceState(handle, state);
}
