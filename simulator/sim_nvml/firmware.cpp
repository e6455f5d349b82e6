// What runs on the GPU itself: VBIOS, inforom, GSP.
#include <array>

#include "sim_nvml/device_call.h"

namespace {

using namespace gpuyard;
using namespace gpuyard::nvml;
using sim::Call;
using sim_nvml::Device;

template <class Text>
ReturnCode put_version(DeviceHandle handle, char* out, unsigned size, Text&& text) {
  return sim_nvml::on_device(Call::firmware, handle, out != nullptr, [&](const Device& device) {
    return sim_nvml::put_text(text(device.model), out, size);
  });
}

// FNV-1a over what the inforom says: the same inforom, the same checksum.
std::uint32_t checksum_of(const sim::Inforom& inforom) {
  std::uint32_t sum = 2166136261U;
  for (const auto part : {inforom.image, inforom.oem, inforom.ecc, inforom.power}) {
    for (const char c : part) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return sum;
}

}  // namespace

SIM_NVML_ENTRY nvmlDeviceGetVbiosVersion(DeviceHandle handle, char* out, unsigned size) {
  return put_version(handle, out, size, [](const sim::Model& m) { return m.vbios_version; });
}

SIM_NVML_ENTRY nvmlDeviceGetInforomImageVersion(DeviceHandle handle, char* out, unsigned size) {
  return put_version(handle, out, size, [](const sim::Model& m) { return m.inforom.image; });
}

SIM_NVML_ENTRY nvmlDeviceGetInforomVersion(DeviceHandle handle, unsigned object, char* out,
                                           unsigned size) {
  using Part = std::string_view sim::Inforom::*;
  constexpr std::array<Part, 3> kParts{&sim::Inforom::oem, &sim::Inforom::ecc,
                                       &sim::Inforom::power};
  return sim_nvml::on_device(
      Call::firmware, handle, out != nullptr && object < kParts.size(), [&](const Device& device) {
        return sim_nvml::put_text(device.model.inforom.*kParts[object], out, size);
      });
}

SIM_NVML_ENTRY nvmlDeviceGetInforomConfigurationChecksum(DeviceHandle handle, unsigned* out) {
  return sim_nvml::read_one(Call::firmware, handle, out, [](const Device& d) {
    return sim_nvml::when(!d.model.inforom.image.empty(), checksum_of(d.model.inforom));
  });
}

SIM_NVML_ENTRY nvmlDeviceValidateInforom(DeviceHandle handle) {
  return sim_nvml::on_device(Call::firmware, handle, true, [](const Device& d) {
    return d.model.inforom.image.empty() ? kNotSupported : kSuccess;
  });
}

SIM_NVML_ENTRY nvmlDeviceGetGspFirmwareMode(DeviceHandle handle, unsigned* enabled,
                                            unsigned* by_default) {
  return sim_nvml::read_two(Call::firmware, handle, enabled, by_default, [](const Device& d) {
    const unsigned on = d.model.has_gsp ? 1 : 0;
    return std::optional(std::pair(on, on));
  });
}

// The firmware comes with the driver and has its version. The caller's buffer has 64 bytes, always.
SIM_NVML_ENTRY nvmlDeviceGetGspFirmwareVersion(DeviceHandle handle, char* out) {
  return sim_nvml::on_device(Call::firmware, handle, out != nullptr, [&](const Device& device) {
    return sim_nvml::put_text(device.model.has_gsp ? device.driver.version() : "", out,
                              kGspFirmwareSize);
  });
}
