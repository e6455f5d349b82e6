// GPM: two samples of a GPU's activity counters make percentages and rates. Hopper and newer.
#include <algorithm>
#include <array>
#include <numeric>

#include "sim_nvml/device_call.h"
#include "sim_nvml/handle_table.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Activity;
using sim::Call;

constexpr std::size_t kMaxGpmSamples = 4096;  // at a time, of one client
// The counters are not refreshed more often.
constexpr std::uint64_t kMinSampleIntervalUs = 100'000;
constexpr unsigned kNoGpu = ~0U;

// GPM's structs have the bare version 1, but NVIDIA's own Go bindings add a struct size to it,
// which differs between headers.
bool is_version_1(unsigned word) {
  return word == 1 || word >> 24 == 1;
}

// The data of a sample.
struct Counters {
  unsigned gpu = kNoGpu;  // until the sample is taken
  std::uint64_t elapsed_us = 0;
  std::array<std::uint64_t, sim::kActivities> activity_us{};
  std::uint64_t pcie_tx = 0;  // bytes
  std::uint64_t pcie_rx = 0;
  std::uint64_t nvlink_tx = 0;
  std::uint64_t nvlink_rx = 0;
};

template <std::size_t N>
std::uint64_t sum(const std::array<std::uint64_t, N>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

Counters counters_of(const Device& d) {
  return {.gpu = d.place,
          .elapsed_us = d.record.elapsed_us,
          .activity_us = d.record.activity_us,
          .pcie_tx = d.record.pcie_tx_bytes,
          .pcie_rx = d.record.pcie_rx_bytes,
          .nvlink_tx = sum(d.record.nvlink_tx_bytes),
          .nvlink_rx = sum(d.record.nvlink_rx_bytes)};
}

using Samples = HandleTable<GpmSample, Counters, kMaxGpmSamples>;

Samples& samples() {
  static Samples& only = *new Samples;  // never destroyed, like the session
  return only;
}

// An interval between two samples of one GPU.
struct Interval {
  const Counters& older;
  const Counters& newer;
  std::uint64_t us() const { return newer.elapsed_us - older.elapsed_us; }
};

template <Activity activity>
double percent(const Interval& interval) {
  constexpr auto i = static_cast<std::size_t>(activity);
  const auto busy =
      static_cast<double>(interval.newer.activity_us[i] - interval.older.activity_us[i]);
  return std::clamp(100.0 * busy / static_cast<double>(interval.us()), 0.0, 100.0);
}

template <std::uint64_t Counters::* bytes>
double mib_per_s(const Interval& interval) {
  const auto moved = static_cast<double>(interval.newer.*bytes - interval.older.*bytes);
  return moved / 1048576.0 / (static_cast<double>(interval.us()) / 1e6);
}

struct Metric {
  unsigned id;
  const char* name;
  double (*read)(const Interval&);
};

constexpr std::array kMetrics{
    Metric{kGpmGraphics, "Graphics Util", percent<Activity::graphics>},
    Metric{kGpmSm, "SM Util", percent<Activity::sm>},
    Metric{kGpmOccupancy, "SM Occupancy", percent<Activity::occupancy>},
    Metric{kGpmInteger, "Integer Util", percent<Activity::integer>},
    Metric{kGpmTensor, "Any Tensor Util", percent<Activity::tensor>},
    Metric{kGpmDram, "DRAM BW Util", percent<Activity::dram>},
    Metric{kGpmFp64, "FP64 Util", percent<Activity::fp64>},
    Metric{kGpmFp32, "FP32 Util", percent<Activity::fp32>},
    Metric{kGpmFp16, "FP16 Util", percent<Activity::fp16>},
    Metric{kGpmPcieTx, "PCIe TX", mib_per_s<&Counters::pcie_tx>},
    Metric{kGpmPcieRx, "PCIe RX", mib_per_s<&Counters::pcie_rx>},
    Metric{kGpmNvlinkRx, "NVLink RX", mib_per_s<&Counters::nvlink_rx>},
    Metric{kGpmNvlinkTx, "NVLink TX", mib_per_s<&Counters::nvlink_tx>},
};

void answer(const Interval& interval, GpmMetric& out) {
  const auto metric = std::ranges::find(kMetrics, out.id, &Metric::id);
  out.value = 0;
  out.short_name = out.long_name = out.unit = nullptr;
  out.code = out.id == 0 || out.id > kGpmMetricMax ? kInvalidArgument : kNotSupported;
  if (metric == kMetrics.end()) return;
  out.short_name = out.long_name = metric->name;
  out.unit = metric->id < kGpmPcieTx ? "%" : "MiB/s";
  out.code = interval.us() < kMinSampleIntervalUs ? kNoData : kSuccess;
  if (out.code == kSuccess) out.value = metric->read(interval);
}

}  // namespace

SIM_NVML_ENTRY nvmlGpmQueryDeviceSupport(DeviceHandle handle, GpmSupport* out) {
  return on_device(Call::gpm, handle, out != nullptr, [&](const Device& device) {
    if (!is_version_1(out->version)) return kArgumentVersionMismatch;
    out->supported = device.model.has_gpm ? 1 : 0;
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlGpmSampleAlloc(GpmSample* out) {
  if (session().driver() == nullptr) return kUninitialized;
  if (out == nullptr) return kInvalidArgument;
  *out = samples().make({});
  return *out != nullptr ? kSuccess : kMemory;
}

SIM_NVML_ENTRY nvmlGpmSampleFree(GpmSample sample) {
  if (session().driver() == nullptr) return kUninitialized;
  return samples().free(sample) ? kSuccess : kInvalidArgument;
}

SIM_NVML_ENTRY nvmlGpmSampleGet(DeviceHandle handle, GpmSample sample) {
  return on_device(Call::gpm, handle, samples().get(sample).has_value(), [&](const Device& device) {
    if (!device.model.has_gpm) return kNotSupported;
    const auto taken = counters_of(device);
    const bool there = samples().change(sample, [&](Counters& kept) { kept = taken; });
    return there ? kSuccess : kInvalidArgument;
  });
}

// Touches only the first `count` metrics: the caller may have no memory behind them.
SIM_NVML_ENTRY nvmlGpmMetricsGet(GpmMetricsGet* out) {
  if (session().driver() == nullptr) return kUninitialized;
  if (out == nullptr) return kInvalidArgument;
  if (!is_version_1(out->version)) return kArgumentVersionMismatch;
  const auto older = samples().get(out->sample1);
  const auto newer = samples().get(out->sample2);
  if (!older || !newer || out->count > kGpmMetricMax) return kInvalidArgument;
  const bool a_pair =
      older->gpu != kNoGpu && older->gpu == newer->gpu && older->elapsed_us <= newer->elapsed_us;
  if (!a_pair) return kInvalidArgument;
  for (unsigned i = 0; i < out->count; ++i) answer({*older, *newer}, out->metrics[i]);
  return kSuccess;
}
