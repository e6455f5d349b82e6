#include "gpu/nvml/gpu_reader.h"

#include <array>
#include <cmath>
#include <utility>

namespace gpuyard::nvml {
namespace {

// Types of the calls of probes that ask for one number with one call.
using OneNumber = Call<DeviceHandle, unsigned*>;

void read_numbers(DeviceHandle device, Probe probe, std::initializer_list<OneNumber> calls,
                  Recorder record) {
  const Metric* metric = row_of(probe).fills.data();
  for (const OneNumber& call : calls) record.query(*metric++, call, device);
}

void read_flags(DeviceHandle device, Probe probe,
                const Call<DeviceHandle, unsigned long long*>& call, Recorder record) {
  const Metric metric = row_of(probe).fills.front();
  unsigned long long bits = 0;
  if (record.try_query(metric, [&] { return call(device, &bits); })) record.flags(metric, bits);
}

struct Pipe {
  Metric metric;
  unsigned id;
};
constexpr std::array kPipes = {
    Pipe{Metric::gpm_graphics, kGpmGraphics},   Pipe{Metric::gpm_sm, kGpmSm},
    Pipe{Metric::gpm_occupancy, kGpmOccupancy}, Pipe{Metric::gpm_tensor, kGpmTensor},
    Pipe{Metric::gpm_dram, kGpmDram},           Pipe{Metric::gpm_fp64, kGpmFp64},
    Pipe{Metric::gpm_fp32, kGpmFp32},           Pipe{Metric::gpm_fp16, kGpmFp16},
};

}  // namespace

// The bounds of power are a rare row. A program that reads once needs them to judge the power.
void GpuReader::learn_power_bounds() {
  if (std::exchange(power_bounds_read_, true)) return;
  Sample bounds;
  run(Probe::power_bounds, bounds);
  plausibility_filter_.apply(bounds);
}

Sample GpuReader::read(ProbeSet probes) {
  std::size_t rows = 0;
  probes.each([&](Probe probe) { rows += row_of(probe).fills.size(); });
  Sample sample;
  sample.reserve(rows);
  if (probes.contains(Probe::power)) learn_power_bounds();
  probes.each([&](Probe probe) { run(probe, sample); });
  plausibility_filter_.apply(sample);
  return sample;
}

void GpuReader::run(Probe probe, Sample& sample) {
  Recorder record(support_, sample);
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
      return record.query(Metric::energy_total, api_.total_energy_consumption, device_);
    case Probe::clocks:
    case Probe::clock_limits:
      return read_clocks(api_, device_, probe, record);
    case Probe::throttle_reasons:
      return read_flags(device_, probe, api_.throttle_reasons, record);
    case Probe::performance_state:
      return record.query(Metric::performance_state, api_.performance_state, device_);
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
      read_modes(api_, device_, record);
      return read_recovery_action(api_, device_, record);
    case Probe::nvlink_state:
      return read_nvlink_state(api_, device_, record);
    case Probe::nvlink_traffic:
      return read_nvlink_traffic(api_, device_, record);
    case Probe::gpm:
      return gpm_.read(device_, record);
    case Probe::processes:
      return processes_.read(api_, device_, record);
    case Probe::ecc_places:
      return read_ecc_locations(api_, device_, record);
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

Gpm::~Gpm() {
  if (older_ != nullptr) api_.gpm_sample_free(older_);
  if (newer_ != nullptr) api_.gpm_sample_free(newer_);
}

ReturnCode Gpm::take_sample(DeviceHandle device, TimePoint now) {
  if (older_ == nullptr) {
    GpmSupport support;
    if (const ReturnCode code = api_.gpm_support(device, &support); code != kSuccess) return code;
    if (support.supported == 0) return kNotSupported;
    if (const ReturnCode code = api_.gpm_sample_alloc(&older_); code != kSuccess) return code;
  }
  if (newer_ == nullptr) {
    if (const ReturnCode code = api_.gpm_sample_alloc(&newer_); code != kSuccess) return code;
  }
  if (older_taken_at_) return api_.gpm_sample_get(device, newer_);
  const ReturnCode code = api_.gpm_sample_get(device, older_);
  if (code == kSuccess) older_taken_at_ = now;
  return code == kSuccess ? kNotReady : code;
}

void Gpm::measure(Recorder& record) {
  GpmMetricsGet request;
  request.count = static_cast<unsigned>(kPipes.size());
  request.sample1 = older_;
  request.sample2 = newer_;
  for (std::size_t i = 0; i < kPipes.size(); ++i) request.metrics[i].id = kPipes[i].id;
  const ReturnCode code = api_.gpm_metrics_get(&request);
  if (code != kSuccess) return record.missing(Probe::gpm, code);
  constexpr double kMillipercent = 1000;
  constexpr double kMaxPercent = 100;
  for (std::size_t i = 0; i < kPipes.size(); ++i) {
    const GpmMetric& result = request.metrics[i];
    if (result.code != kSuccess) {
      record.missing(kPipes[i].metric, result.code);
    } else if (!(result.value >= 0 && result.value <= kMaxPercent)) {  // nor NaN
      record.implausible(kPipes[i].metric);
    } else {
      record.value(kPipes[i].metric, std::llround(result.value * kMillipercent));
    }
  }
}

void Gpm::read(DeviceHandle device, Recorder record) {
  const TimePoint now = record.taken();
  if (older_taken_at_ && now - *older_taken_at_ < kMinInterval) {
    return record.missing(Probe::gpm, kNotReady);
  }
  ReturnCode taken = kSuccess;
  if (!record.try_query(row_of(Probe::gpm).fills,
                        [&] { return taken = take_sample(device, now); })) {
    // Starts over after a loss: the counts from before it mean nothing afterwards.
    if (taken != kNotReady) older_taken_at_.reset();
    return;
  }
  measure(record);
  std::swap(older_, newer_);
  older_taken_at_ = now;
}

}  // namespace gpuyard::nvml
