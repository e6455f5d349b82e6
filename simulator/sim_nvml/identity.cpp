// The identity of a GPU.
#include <algorithm>
#include <array>
#include <utility>

#include "sim/pci_address.h"
#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using namespace gpuyard::sim_nvml;
using sim::Call;

// Reads one text, as read_one() reads a number.
template <class Read>
ReturnCode read_text(Call call, DeviceHandle handle, char* out, unsigned size, Read&& read) {
  return on_device(call, handle, out != nullptr, [&](const Device& device) {
    return put_text(read_of(device, read), out, size);
  });
}

// Fills the fields that every layout has.
template <class Layout>
void put_address(const Device& device, Layout& out) {
  out.domain = device.identity.pci_domain;
  out.bus = device.identity.pci_bus;
  out.device = device.identity.pci_device;
  out.pci_device_id = device.model.pci_device_id;
}

constexpr unsigned kBusPcie = 2;      // nvmlBusType: NVML_BUS_TYPE_PCIE
constexpr unsigned kSourceMains = 0;  // NVML_POWER_SOURCE_AC
constexpr unsigned kVirtualizationNone = 0;

// FNV-1a over the inforom's versions: the same inforom has the same checksum.
std::uint32_t checksum_of(const sim::Inforom& inforom) {
  std::uint32_t sum = 2166136261U;
  for (const auto part : {inforom.image, inforom.oem, inforom.ecc, inforom.power}) {
    for (const char c : part) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return sum;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetName(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::identity, handle, out, size, &sim::Model::name);
}

SIM_NVML_ENTRY nvmlDeviceGetUUID(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::identity, handle, out, size,
                   [](const Device& d) { return d.identity.uuid; });
}

SIM_NVML_ENTRY nvmlDeviceGetSerial(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::identity, handle, out, size,
                   [](const Device& d) { return d.identity.serial; });
}

SIM_NVML_ENTRY nvmlDeviceGetIndex(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out,
                  [](const Device& d) { return d.driver.index_of(d.place); });
}

SIM_NVML_ENTRY nvmlDeviceGetMinorNumber(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out,
                  [](const Device& d) { return d.identity.minor_number; });
}

SIM_NVML_ENTRY nvmlDeviceGetBrand(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, &sim::Model::brand);
}

SIM_NVML_ENTRY nvmlDeviceGetArchitecture(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, &sim::Model::architecture);
}

SIM_NVML_ENTRY nvmlDeviceGetCudaComputeCapability(DeviceHandle handle, int* major, int* minor) {
  return read_two(Call::identity, handle, major, minor, [](const Device& d) {
    return std::optional(std::pair(d.model.compute_major, d.model.compute_minor));
  });
}

// Three generations with three layouts: writing a newer layout to an older caller's struct would
// overwrite its stack.
SIM_NVML_ENTRY nvmlDeviceGetPciInfo(DeviceHandle handle, PciInfoV1* out) {
  return on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfoV1{};
    put_address(device, *out);
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPciInfo_v2(DeviceHandle handle, PciInfoV2* out) {
  return on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfoV2{};
    put_address(device, *out);
    out->pci_subsystem_id = device.model.pci_subsystem_id;
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* out) {
  return on_device(Call::pci_info, handle, out != nullptr, [&](const Device& device) {
    *out = PciInfo{};
    put_address(device, *out);
    out->pci_subsystem_id = device.model.pci_subsystem_id;
    std::ranges::copy(sim::legacy_pci_address(device.identity), out->bus_id_legacy);
    std::ranges::copy(sim::pci_address(device.identity), out->bus_id);
    return kSuccess;
  });
}

// A GPU's hardware, and its board.
SIM_NVML_ENTRY nvmlDeviceGetNumGpuCores(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, &sim::Model::cores);
}

SIM_NVML_ENTRY nvmlDeviceGetMemoryBusWidth(DeviceHandle handle, unsigned* bits) {
  return read_one(Call::identity, handle, bits, &sim::Model::memory_bus_bits);
}

SIM_NVML_ENTRY nvmlDeviceGetBoardPartNumber(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::identity, handle, out, size, &sim::Model::board_part_number);
}

// Derived from the PCI address: unique, and the same for GPUs of one board. Each board here has one
// GPU.
SIM_NVML_ENTRY nvmlDeviceGetBoardId(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, [](const Device& d) {
    return d.identity.pci_domain << 16 | d.identity.pci_bus << 8 | d.identity.pci_device << 3;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetMultiGpuBoard(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, [](const Device&) { return 0; });
}

SIM_NVML_ENTRY nvmlDeviceOnSameBoard(DeviceHandle one, DeviceHandle other, int* out) {
  return on_device(Call::topology, one, out != nullptr, [&](const Device& first) {
    return read_one(Call::topology, other, out,
                    [&](const Device& second) { return first.place == second.place ? 1 : 0; });
  });
}

SIM_NVML_ENTRY nvmlDeviceGetBusType(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, [](const Device&) { return kBusPcie; });
}

SIM_NVML_ENTRY nvmlDeviceGetPowerSource(DeviceHandle handle, unsigned* out) {
  return read_one(Call::identity, handle, out, [](const Device&) { return kSourceMains; });
}

SIM_NVML_ENTRY nvmlDeviceGetVirtualizationMode(DeviceHandle handle, unsigned* out) {
  return read_one(Call::modes, handle, out, [](const Device&) { return kVirtualizationNone; });
}

// Firmware of the GPU: VBIOS, inforom, GSP.
SIM_NVML_ENTRY nvmlDeviceGetVbiosVersion(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::firmware, handle, out, size, &sim::Model::vbios_version);
}

SIM_NVML_ENTRY nvmlDeviceGetInforomImageVersion(DeviceHandle handle, char* out, unsigned size) {
  return read_text(Call::firmware, handle, out, size,
                   [](const Device& d) { return d.model.inforom.image; });
}

SIM_NVML_ENTRY nvmlDeviceGetInforomVersion(DeviceHandle handle, unsigned object, char* out,
                                           unsigned size) {
  using Part = std::string_view sim::Inforom::*;
  constexpr std::array<Part, 3> kParts{&sim::Inforom::oem, &sim::Inforom::ecc,
                                       &sim::Inforom::power};
  return read_text(Call::firmware, handle, object < kParts.size() ? out : nullptr, size,
                   [&](const Device& d) { return d.model.inforom.*kParts[object]; });
}

SIM_NVML_ENTRY nvmlDeviceGetInforomConfigurationChecksum(DeviceHandle handle, unsigned* out) {
  return read_one(Call::firmware, handle, out, [](const Device& d) {
    return optional_if(!d.model.inforom.image.empty(), checksum_of(d.model.inforom));
  });
}

SIM_NVML_ENTRY nvmlDeviceValidateInforom(DeviceHandle handle) {
  return on_device(Call::firmware, handle, true, [](const Device& d) {
    return d.model.inforom.image.empty() ? kNotSupported : kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetGspFirmwareMode(DeviceHandle handle, unsigned* enabled,
                                            unsigned* by_default) {
  return read_two(Call::firmware, handle, enabled, by_default, [](const Device& d) {
    const unsigned on = d.model.has_gsp ? 1 : 0;
    return std::optional(std::pair(on, on));
  });
}

// The firmware comes with the driver and has its version. The caller's buffer always has 64 bytes.
SIM_NVML_ENTRY nvmlDeviceGetGspFirmwareVersion(DeviceHandle handle, char* out) {
  return read_text(Call::firmware, handle, out, kGspFirmwareSize, [](const Device& d) {
    return d.model.has_gsp ? d.driver.version() : std::string_view();
  });
}
