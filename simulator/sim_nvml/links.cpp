// NVLink, on the models that have it: every link goes to a switch, and none ever fails.

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
