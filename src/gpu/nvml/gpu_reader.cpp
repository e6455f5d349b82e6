#include "nvml/gpu_reader.h"

namespace gpuyard::nvml {
namespace {

// Probes of one call with one number for an answer.
using OneNumber = Call<DeviceHandle, unsigned*>;
using OneLongNumber = Call<DeviceHandle, unsigned long long*>;

void read_numbers(DeviceHandle device, Probe probe, std::initializer_list<OneNumber> calls,
                  Recorder record) {
  const Metric* metric = row_of(probe).fills.data();
  for (const OneNumber& call : calls) {
    record.one<unsigned>(*metric++, [&](unsigned* number) { return call(device, number); });
  }
}

void read_long(DeviceHandle device, Probe probe, const OneLongNumber& call, Recorder record) {
  record.one<unsigned long long>(row_of(probe).fills.front(),
                                 [&](unsigned long long* number) { return call(device, number); });
}

}  // namespace

Sample GpuReader::read(ProbeSet probes) {
  Sample sample;
  probes.each([&](Probe probe) { run(probe, sample); });
  return sample;
}

void GpuReader::run(Probe probe, Sample& sample) {
  const Recorder record(support_, sample);
  switch (probe) {
    case Probe::memory:
      return read_memory(api_, device_, record);
    case Probe::utilization:
      return read_utilization(api_, device_, record);
    case Probe::temperature:
      return read_temperature(api_, device_, record);
    case Probe::power:
      return read_numbers(device_, probe, {api_.power_usage}, record);
    case Probe::energy:
      return read_long(device_, probe, api_.total_energy_consumption, record);
    case Probe::clocks:
    case Probe::clock_limits:
      return read_clocks(api_, device_, probe, record);
    case Probe::throttle_reasons:
      return read_long(device_, probe, api_.throttle_reasons, record);
    case Probe::performance_state:
      return read_performance_state(api_, device_, record);
    case Probe::power_fields:
      return read_power_fields(api_, device_, record);
    case Probe::memory_temperature:
      return read_memory_temperature(api_, device_, record);
    case Probe::power_limit:
      return read_numbers(device_, probe, {api_.enforced_power_limit, api_.power_limit}, record);
    case Probe::encoder:
    case Probe::decoder:
      return read_engines(api_, device_, probe, record);
    case Probe::bar1:
      return read_bar1(api_, device_, record);
    case Probe::fans:
      return read_fans(api_, device_, record);
    case Probe::pcie_link:
      return read_numbers(device_, probe, {api_.pcie_generation, api_.pcie_width}, record);
    case Probe::pcie_tx:
    case Probe::pcie_rx:
      return read_pcie_throughput(api_, device_, probe, record);
    case Probe::pcie_replays:
      return read_numbers(device_, probe, {api_.pcie_replays}, record);
    case Probe::ecc_totals:
      return read_ecc_totals(api_, device_, record);
    case Probe::row_remaps:
      return read_row_remaps(api_, device_, record);
    case Probe::throttle_times:
      return read_throttle_times(api_, device_, throttle_time_fields_, record);
    case Probe::modes:
      return read_modes(api_, device_, record);
    case Probe::nvlink_state:
      return read_nvlink_state(api_, device_, record);
    case Probe::nvlink_traffic:
      return read_nvlink_traffic(api_, device_, record);
    case Probe::gpm:
      return gpm_.read(device_, record);
    case Probe::processes:
      return processes_.read(api_, device_, record);
    case Probe::ecc_places:
      return read_ecc_places(api_, device_, record);
    case Probe::retired_pages:
      return read_retired_pages(api_, device_, record);
    case Probe::temperature_limits:
      return read_temperature_limits(api_, device_, record);
    case Probe::power_bounds:
      return read_power_bounds(api_, device_, record);
    case Probe::pcie_limits:
      return read_numbers(device_, probe, {api_.max_pcie_generation, api_.max_pcie_width}, record);
    case Probe::inventory:
      return read_inventory(api_, device_, record);
  }
}

}  // namespace gpuyard::nvml
