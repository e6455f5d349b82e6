// PCIe and NVLink.
#include "nvml/probes.h"

namespace gpuyard::nvml {

void read_pcie_throughput(const Api& api, DeviceHandle device, Probe probe, Recorder record) {
  constexpr std::int64_t kKilobyte = 1024;  // nvml.h says KB/s; nvidia-smi shows the same as KiB
  const Metric metric = row_of(probe).fills.front();
  const unsigned direction = probe == Probe::pcie_tx ? kPcieTx : kPcieRx;
  unsigned kilobytes = 0;
  const auto ask = [&] { return api.pcie_throughput(device, direction, &kilobytes); };
  if (!record.ask_for(metric, ask)) return;
  if (kilobytes == ~0U) return record.implausible(metric);
  record.value(metric, kilobytes * kKilobyte);
}

void read_nvlink_state(const Api& api, DeviceHandle device, Recorder record) {
  unsigned active = 0;
  const auto ask_first = [&] { return api.nvlink_state(device, 0, &active); };
  if (!record.ask_for(Metric::nvlink_active, ask_first)) return;
  record.value(Metric::nvlink_active, active);
  for (std::uint16_t link = 1; link < kMaxNvlinks; ++link) {
    const ReturnCode code = api.nvlink_state(device, link, &active);
    if (code == kInvalidArgument || code == kNotSupported) return;  // it has no more
    if (code != kSuccess) {
      record.missing(Metric::nvlink_active, code, link);
    } else {
      record.value(Metric::nvlink_active, active, link);
    }
  }
}

}  // namespace gpuyard::nvml
