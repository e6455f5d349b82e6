// Recent utilisation by process.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;
using sim::ProcessKind;
using sim::ProcessUse;

// The driver keeps one sample per process, and takes them about six times a second.
constexpr std::uint64_t kSamplePeriodUs = 166'667;
constexpr unsigned kMaxUtilizationSamples = 100;

bool is_busy(const ProcessUse& process) {
  return (process.sm_percent | process.memory_percent | process.encoder_percent |
          process.decoder_percent) != 0;
}

}  // namespace

// Without a buffer it only returns the largest size that could be needed, even if there is no
// sample. With one, an idle GPU, or a GPU without a sample newer than `last_seen`, is "not found".
SIM_NVML_ENTRY nvmlDeviceGetProcessUtilization(DeviceHandle handle, ProcessUtilization* out,
                                               unsigned* count, unsigned long long last_seen) {
  return on_device(sim::Call::processes, handle, count != nullptr, [&](const Device& device) {
    auto processes = device.driver.world().processes(device.place, device.record);
    if (!processes) return kUnknown;
    std::erase_if(*processes, [](const ProcessUse& process) { return !is_busy(process); });
    if (out == nullptr) {
      *count = std::max(kMaxUtilizationSamples, static_cast<unsigned>(processes->size()));
      return kInsufficientSize;
    }
    const std::uint64_t taken = wall_clock_us() / kSamplePeriodUs * kSamplePeriodUs;
    if (processes->empty() || taken <= last_seen) return kNotFound;
    return put_list(*processes, count, out, [&](const ProcessUse& process) {
      return ProcessUtilization{.pid = process.pid,
                                .timestamp_us = taken,
                                .sm = process.sm_percent,
                                .memory = process.memory_percent,
                                .encoder = process.encoder_percent,
                                .decoder = process.decoder_percent};
    });
  });
}
