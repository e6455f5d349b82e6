#include "nvml/nvml_backend.h"

#include <array>

#include <fmt/format.h>

#include "device/error.h"
#include "device/pci.h"
#include "nvml/codes.h"
#include "nvml/probes.h"

namespace gpuyard::nvml {
namespace {

template <unsigned Size, class Ask>
std::optional<std::string> ask_text(Ask ask) {
  std::array<char, Size> text{};
  if (ask(text.data(), Size) != kSuccess) return std::nullopt;
  text.back() = '\0';
  return std::string(text.data());
}

DriverInfo driver_info(const Library& library) {
  const Api& api = library.api;
  DriverInfo info;
  info.driver_version = ask_text<kDriverVersionSize>(api.driver_version);
  info.nvml_version = ask_text<kNvmlVersionSize>(api.nvml_version);
  int cuda = 0;
  if (api.cuda_driver_version(&cuda) == kSuccess) {
    info.cuda_driver_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  }
  info.library = library.path;
  return info;
}

DeviceInfo closed_device(unsigned index, ReturnCode code) {
  DeviceInfo info;
  info.id = fmt::format("index:{}", index);
  info.index = index;
  info.fault = missing_of(code);
  return info;
}

// A GPU without a UUID has no identity to keep anything by, and one without a name is not usable:
// both are listed with their fault.
DeviceInfo describe_device(const Api& api, unsigned index, DeviceHandle handle) {
  std::array<char, kUuidSize> uuid{};
  if (const ReturnCode code = api.uuid(handle, uuid.data(), kUuidSize); code != kSuccess) {
    return closed_device(index, code);
  }
  DeviceInfo info;
  info.id = info.uuid = uuid.data();
  info.index = index;
  PciInfo pci;
  if (api.pci_info(handle, &pci) == kSuccess) info.pci_address = short_pci_address(pci.bus_id);
  std::array<char, kNameSize> name{};
  if (const ReturnCode code = api.name(handle, name.data(), kNameSize); code == kSuccess) {
    info.name = name.data();
  } else {
    info.fault = missing_of(code);
  }
  return info;
}

}  // namespace

ReturnCode NvmlBackend::initialise() {
  const std::lock_guard lock(session_mutex_);
  if (initialised_) return kSuccess;
  const ReturnCode code = library_.api.init();
  initialised_ = code == kSuccess || code == kAlreadyInitialized;
  return initialised_ ? kSuccess : code;
}

void NvmlBackend::shutdown() {
  const std::lock_guard lock(session_mutex_);
  if (std::exchange(initialised_, false)) library_.api.shutdown();
}

bool NvmlBackend::initialised() const {
  const std::lock_guard lock(session_mutex_);
  return initialised_;
}

Result<unsigned> NvmlBackend::open_and_count() {
  if (const ReturnCode code = initialise(); code != kSuccess) {
    return init_failed(text_of(code),
                       errc_of(code) == Errc::denied ? Errc::denied : Errc::unavailable);
  }
  unsigned count = 0;
  if (const ReturnCode code = library_.api.device_count(&count); code != kSuccess) {
    shutdown();  // a session that cannot count its GPUs is no session
    return query_failed(text_of(code), errc_of(code));
  }
  return count;
}

Result<Fleet> NvmlBackend::enumerate() {
  const auto count = open_and_count();
  if (!count) return count.error();
  Fleet fleet{driver_info(library_), {}};
  auto handles = std::make_shared<Handles>();
  for (unsigned index = 0; index < *count; ++index) {
    DeviceHandle handle = nullptr;
    const ReturnCode code = library_.api.handle_by_index(index, &handle);
    fleet.devices.push_back(code == kSuccess ? describe_device(library_.api, index, handle)
                                             : closed_device(index, code));
    if (code == kSuccess) handles->emplace(fleet.devices.back().id, handle);
  }
  handles_.store(std::move(handles));
  return fleet;
}

Sample NvmlBackend::read(const DeviceId& id, ProbeSet probes) {
  const auto handles = handles_.load();
  const auto handle = handles ? handles->find(id) : Handles::const_iterator{};
  if (!handles || handle == handles->end()) {
    return missing_sample(probes, missing_of(kGpuNotFound), BootClock::now());
  }
  Sample sample;
  probes.each([&](Probe probe) { run_probe(library_.api, handle->second, probe, sample); });
  return sample;
}

Result<std::unique_ptr<Backend>> make_backend(const std::string& path) {
  auto library = load_library(path);
  if (!library) return std::move(library).error();
  return std::unique_ptr<Backend>(std::make_unique<NvmlBackend>(*std::move(library)));
}

}  // namespace gpuyard::nvml
