// The PCIe link of a GPU, and its topology.
#include "sim/pcie_link.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

constexpr std::uint32_t kThroughputSampleMs = 20;
constexpr std::uint32_t kGpusPerSocket = 4;
static_assert(sim::kMaxGpus / kGpusPerSocket <= 64);
constexpr unsigned kNodeSetWords = 16;  // further words are not written

// Megatransfers per second, by generation; 0: none.
constexpr std::array<unsigned, 6> kSpeeds{0, 2500, 5000, 8000, 16000, 32000};

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetMaxPcieLinkGeneration(DeviceHandle handle, unsigned* out) {
  return read_one(Call::pcie_link, handle, out,
                  [](const Device& d) { return d.model.pcie.max_generation; });
}

// The GPU's own limit; the slots here have the same.
SIM_NVML_ENTRY nvmlDeviceGetGpuMaxPcieLinkGeneration(DeviceHandle handle, unsigned* out) {
  return nvmlDeviceGetMaxPcieLinkGeneration(handle, out);
}

SIM_NVML_ENTRY nvmlDeviceGetMaxPcieLinkWidth(DeviceHandle handle, unsigned* out) {
  return read_one(Call::pcie_link, handle, out,
                  [](const Device& d) { return d.model.pcie.max_width; });
}

SIM_NVML_ENTRY nvmlDeviceGetCurrPcieLinkGeneration(DeviceHandle handle, unsigned* out) {
  return read_one(Call::pcie_link, handle, out, &sim::GpuRecord::pcie_generation);
}

SIM_NVML_ENTRY nvmlDeviceGetCurrPcieLinkWidth(DeviceHandle handle, unsigned* out) {
  return read_one(Call::pcie_link, handle, out, &sim::GpuRecord::pcie_width);
}

SIM_NVML_ENTRY nvmlDeviceGetPcieLinkMaxSpeed(DeviceHandle handle, unsigned* out) {
  // NVML_PCIE_LINK_MAX_SPEED_*: numbered as the generations are.
  return nvmlDeviceGetMaxPcieLinkGeneration(handle, out);
}

SIM_NVML_ENTRY nvmlDeviceGetPcieSpeed(DeviceHandle handle, unsigned* megatransfers) {
  return read_one(Call::pcie_link, handle, megatransfers, [](const Device& d) {
    return d.record.pcie_generation < kSpeeds.size() ? kSpeeds[d.record.pcie_generation] : 0;
  });
}

// Measures for 20 ms, as the driver does; the caller waits meanwhile.
SIM_NVML_ENTRY nvmlDeviceGetPcieThroughput(DeviceHandle handle, unsigned counter, unsigned* out) {
  const bool known = counter == kPcieTx || counter == kPcieRx;
  return read_one(Call::pcie_throughput, handle, known ? out : nullptr, [&](const Device& d) {
    sleep_for(kThroughputSampleMs);
    return (counter == kPcieTx ? d.record.pcie_tx_bytes_per_s : d.record.pcie_rx_bytes_per_s) /
           1000;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPcieReplayCounter(DeviceHandle handle, unsigned* out) {
  return read_one(Call::pcie_replays, handle, out, &sim::GpuRecord::pcie_replays);
}

// A socket is a NUMA node.
SIM_NVML_ENTRY nvmlDeviceGetMemoryAffinity(DeviceHandle handle, unsigned words,
                                           unsigned long* nodes, unsigned scope) {
  const bool known = scope == kAffinityOfNode || scope == kAffinityOfSocket;
  return on_device(Call::topology, handle, known && nodes != nullptr && words > 0,
                   [&](const Device& d) {
                     std::fill_n(nodes, std::min(words, kNodeSetWords), 0UL);
                     nodes[0] = 1UL << (d.place / kGpusPerSocket);
                     return kSuccess;
                   });
}

// Four GPUs to a socket, each behind its own root port.
SIM_NVML_ENTRY nvmlDeviceGetTopologyCommonAncestor(DeviceHandle one, DeviceHandle other,
                                                   unsigned* level) {
  return on_device(Call::topology, one, level != nullptr, [&](const Device& first) {
    return read_one(Call::topology, other, level, [&](const Device& second) {
      if (first.place == second.place) return kTopologyInternal;
      const bool near = first.place / kGpusPerSocket == second.place / kGpusPerSocket;
      return near ? kTopologyNode : kTopologySystem;
    });
  });
}
