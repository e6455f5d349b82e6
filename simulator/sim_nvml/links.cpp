// NVLink, on the models that have it: every link goes to a switch, and none ever fails.
#include <algorithm>
#include <array>

#include "sim/pci_address.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

constexpr unsigned kSwitches = 4;
constexpr std::uint32_t kFirstSwitchBus = 0xD4;  // after the buses of all GPUs
constexpr unsigned kNvlink3 = 4;                 // nvmlNvlinkVersion_t
constexpr unsigned kSwitchOfA100 = 0x1AF110DE;
constexpr unsigned kSwitchOfH100 = 0x22A310DE;
constexpr unsigned kCapabilities = 6;   // nvmlNvLinkCapability_t has this many
constexpr unsigned kCapabilitySli = 4;  // the only one that a data-centre link lacks
constexpr unsigned kErrorCounters = 5;  // nvmlNvLinkErrorCounter_t has this many

// Returns "not supported" on a model without NVLink, and "invalid" for a link that the model lacks.
template <class T, class Read>
ReturnCode read_link(DeviceHandle handle, unsigned link, T* out, Read&& read) {
  return on_device(Call::nvlink, handle, out != nullptr && link < kMaxNvlinks,
                   [&](const Device& device) {
                     if (device.model.nvlink.links == 0) return kNotSupported;
                     if (link >= device.model.nvlink.links) return kInvalidArgument;
                     return put_one(read(device), out);
                   });
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetNvLinkState(DeviceHandle handle, unsigned link, unsigned* active) {
  return read_link(handle, link, active,
                   [&](const Device& d) { return d.record.nvlinks_up >> link & 1U; });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkVersion(DeviceHandle handle, unsigned link, unsigned* version) {
  return read_link(handle, link, version, [](const Device& d) { return d.model.nvlink.version; });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkCapability(DeviceHandle handle, unsigned link,
                                             unsigned capability, unsigned* out) {
  return read_link(handle, link, capability < kCapabilities ? out : nullptr,
                   [&](const Device&) { return capability == kCapabilitySli ? 0 : 1; });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkRemoteDeviceType(DeviceHandle handle, unsigned link,
                                                   unsigned* type) {
  return read_link(handle, link, type, [](const Device&) { return kNvlinkToSwitch; });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkRemotePciInfo_v2(DeviceHandle handle, unsigned link,
                                                   PciInfo* out) {
  return read_link(handle, link, out, [&](const Device& device) {
    sim::Identity address = device.identity;
    address.pci_domain = 0;
    address.pci_bus = kFirstSwitchBus + link % kSwitches;
    address.pci_device = 0;
    PciInfo info;
    info.bus = address.pci_bus;
    info.pci_device_id = device.model.nvlink.version == kNvlink3 ? kSwitchOfA100 : kSwitchOfH100;
    std::ranges::copy(sim::legacy_pci_address(address), info.bus_id_legacy);
    std::ranges::copy(sim::pci_address(address), info.bus_id);
    return info;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkErrorCounter(DeviceHandle handle, unsigned link, unsigned counter,
                                               unsigned long long* out) {
  return read_link(handle, link, counter < kErrorCounters ? out : nullptr,
                   [](const Device&) { return 0; });
}

// The PCIe link of a GPU, and its topology.
namespace {

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
