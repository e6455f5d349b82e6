// How much of a GPU each of its processes used of late.
#include <vector>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::ProcessUse;
using sim_nvml::Device;

// The driver keeps one sample per process, and takes them about six times a second.
constexpr std::uint64_t kSamplePeriodUs = 166'667;
constexpr unsigned kMostUtilizationSamples = 100;

bool busy(const ProcessUse& process) {
  return (process.sm_percent | process.memory_percent | process.encoder_percent |
          process.decoder_percent) != 0;
}

}  // namespace

// With no buffer it only says how large one could be needed, whether there is a sample or not; an
// idle GPU, or one without a sample newer than `last_seen`, then has none: not found.
SIM_NVML_ENTRY nvmlDeviceGetProcessUtilization(DeviceHandle handle, ProcessUtilization* out,
                                               unsigned* count, unsigned long long last_seen) {
  return sim_nvml::on_device(
      sim::Call::processes, handle, count != nullptr, [&](const Device& device) {
        auto processes = device.driver.world().processes(device.place, device.record);
        if (!processes) return kUnknown;
        std::erase_if(*processes, [](const ProcessUse& process) { return !busy(process); });
        if (out == nullptr) {
          *count = std::max(kMostUtilizationSamples, static_cast<unsigned>(processes->size()));
          return kInsufficientSize;
        }
        const std::uint64_t taken = sim_nvml::wall_clock_us() / kSamplePeriodUs * kSamplePeriodUs;
        if (processes->empty() || taken <= last_seen) return kNotFound;
        return sim_nvml::put_list(*processes, count, out, [&](const ProcessUse& process) {
          return ProcessUtilization{.pid = process.pid,
                                    .timestamp_us = taken,
                                    .sm = process.sm_percent,
                                    .memory = process.memory_percent,
                                    .encoder = process.encoder_percent,
                                    .decoder = process.decoder_percent};
        });
      });
}
