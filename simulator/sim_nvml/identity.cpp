// Who a GPU is.
#include <algorithm>
#include <utility>

#include "sim/pci_address.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

template <class Text>
ReturnCode put_identity(DeviceHandle handle, char* out, unsigned size, Text&& text) {
  return sim_nvml::on_device(Call::identity, handle, out != nullptr, [&](const Device& device) {
    return sim_nvml::put_text(text(device), out, size);
  });
}

// The fields that every layout has, whatever stands around them.
template <class Layout>
void put_address(const Device& device, Layout& out) {
  out.domain = device.identity.pci_domain;
  out.bus = device.identity.pci_bus;
  out.device = device.identity.pci_device;
  out.pci_device_id = device.model.pci_device_id;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetName(DeviceHandle handle, char* out, unsigned size) {
  return put_identity(handle, out, size, [](const Device& device) { return device.model.name; });
}

SIM_NVML_ENTRY nvmlDeviceGetUUID(DeviceHandle handle, char* out, unsigned size) {
  return put_identity(handle, out, size, [](const Device& device) { return device.identity.uuid; });
}

SIM_NVML_ENTRY nvmlDeviceGetSerial(DeviceHandle handle, char* out, unsigned size) {
  return put_identity(handle, out, size,
                      [](const Device& device) { return device.identity.serial; });
}

SIM_NVML_ENTRY nvmlDeviceGetIndex(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device& d) { return d.driver.index_of(d.place); });
}

SIM_NVML_ENTRY nvmlDeviceGetMinorNumber(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device& d) { return d.identity.minor_number; });
}

SIM_NVML_ENTRY nvmlDeviceGetBrand(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device& d) { return d.model.brand; });
}

SIM_NVML_ENTRY nvmlDeviceGetArchitecture(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device& d) { return d.model.architecture; });
}

SIM_NVML_ENTRY nvmlDeviceGetCudaComputeCapability(DeviceHandle handle, int* major, int* minor) {
  return sim_nvml::read_two(Call::identity, handle, major, minor, [](const Device& d) {
    return std::optional(std::pair(d.model.compute_major, d.model.compute_minor));
  });
}

// Three generations, three layouts: a newer one written over an older caller's struct would smash
// its stack.
SIM_NVML_ENTRY nvmlDeviceGetPciInfo(DeviceHandle handle, PciInfoV1* out) {
  return sim_nvml::on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfoV1{};
    put_address(device, *out);
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPciInfo_v2(DeviceHandle handle, PciInfoV2* out) {
  return sim_nvml::on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfoV2{};
    put_address(device, *out);
    out->pci_subsystem_id = device.model.pci_subsystem_id;
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* out) {
  return sim_nvml::on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfo{};
    put_address(device, *out);
    out->pci_subsystem_id = device.model.pci_subsystem_id;
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id_legacy);
    std::ranges::copy(sim::pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}
