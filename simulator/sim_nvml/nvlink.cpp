// NVLink, on the models that have it: every link goes to a switch, and none ever fails.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kRemoteIsSwitch = 2;  // nvmlIntNvLinkDeviceType_t
constexpr unsigned kCapabilities = 6;    // nvmlNvLinkCapability_t has so many
constexpr unsigned kCapabilitySli = 4;   // the only one that a data-centre link lacks
constexpr unsigned kErrorCounters = 5;   // nvmlNvLinkErrorCounter_t has so many

// Not supported on a model without NVLink; invalid for a link that this model does not have.
template <class T, class Read>
ReturnCode read_link(DeviceHandle handle, unsigned link, T* out, Read&& read) {
  return sim_nvml::on_device(Call::nvlink, handle, out != nullptr && link < kMaxNvlinks,
                             [&](const Device& device) {
                               if (device.model.nvlink.links == 0) return kNotSupported;
                               if (link >= device.model.nvlink.links) return kInvalidArgument;
                               return sim_nvml::put_one(read(device), out);
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
  return read_link(handle, link, type, [](const Device&) { return kRemoteIsSwitch; });
}

SIM_NVML_ENTRY nvmlDeviceGetNvLinkErrorCounter(DeviceHandle handle, unsigned link, unsigned counter,
                                               unsigned long long* out) {
  return read_link(handle, link, counter < kErrorCounters ? out : nullptr,
                   [](const Device&) { return 0; });
}
