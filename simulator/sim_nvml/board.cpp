// What a GPU is built of, and the board it is on.
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

constexpr unsigned kBusPcie = 2;      // nvmlBusType: NVML_BUS_TYPE_PCIE
constexpr unsigned kSourceMains = 0;  // NVML_POWER_SOURCE_AC
constexpr unsigned kVirtualizationNone = 0;

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetNumGpuCores(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device& d) { return d.model.cores; });
}

SIM_NVML_ENTRY nvmlDeviceGetMemoryBusWidth(DeviceHandle handle, unsigned* bits) {
  return sim_nvml::read_one(Call::identity, handle, bits,
                            [](const Device& d) { return d.model.memory_bus_bits; });
}

SIM_NVML_ENTRY nvmlDeviceGetBoardPartNumber(DeviceHandle handle, char* out, unsigned size) {
  return sim_nvml::on_device(Call::identity, handle, out != nullptr, [&](const Device& device) {
    return sim_nvml::put_text(device.model.board_part_number, out, size);
  });
}

// Made of the PCI address: unique, and the same for GPUs of one board, of which each here has one.
SIM_NVML_ENTRY nvmlDeviceGetBoardId(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out, [](const Device& d) {
    return d.identity.pci_domain << 16 | d.identity.pci_bus << 8 | d.identity.pci_device << 3;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetMultiGpuBoard(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out, [](const Device&) { return 0; });
}

SIM_NVML_ENTRY nvmlDeviceOnSameBoard(DeviceHandle one, DeviceHandle other, int* out) {
  return sim_nvml::on_device(Call::topology, one, out != nullptr, [&](const Device& first) {
    return sim_nvml::read_one(Call::topology, other, out, [&](const Device& second) {
      return first.place == second.place ? 1 : 0;
    });
  });
}

SIM_NVML_ENTRY nvmlDeviceGetBusType(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out, [](const Device&) { return kBusPcie; });
}

SIM_NVML_ENTRY nvmlDeviceGetPowerSource(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::identity, handle, out,
                            [](const Device&) { return kSourceMains; });
}

SIM_NVML_ENTRY nvmlDeviceGetVirtualizationMode(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::modes, handle, out,
                            [](const Device&) { return kVirtualizationNone; });
}
