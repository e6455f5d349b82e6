#include "gpu/nvml/nvml_backend.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "gpu/device/device.h"
#include "gpu/device/error.h"
#include "gpu/nvml/api.h"
#include "gpu/nvml/control.h"
#include "gpu/nvml/probes.h"

namespace gpuyard::nvml {
namespace {

template <unsigned Size, class Call>
std::optional<std::string> query_text(Call call) {
  std::array<char, Size> text{};
  if (call(text.data(), Size) != kSuccess) return std::nullopt;
  text.back() = '\0';
  return std::string(text.data());
}

// Returns 12020 for 12.2; 0 if the driver does not report it.
int cuda_version(const Library& library) {
  int version = 0;
  return library.api.cuda_driver_version(&version) == kSuccess ? version : 0;
}

DriverInfo driver_info(const Library& library) {
  const Api& api = library.api;
  DriverInfo info;
  info.driver_version = query_text<kDriverVersionSize>(api.driver_version);
  info.nvml_version = query_text<kNvmlVersionSize>(api.nvml_version);
  if (const int cuda = cuda_version(library); cuda != 0) {
    info.cuda_driver_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  }
  info.library = library.path;
  info.simulated = library.simulated;
  return info;
}

// A GPU without a UUID has no identity to store data under, and one without a name is not usable:
// both are listed with their fault.
DeviceInfo describe_device(const Api& api, unsigned index, DeviceHandle handle) {
  std::array<char, kUuidSize> uuid{};
  if (const ReturnCode code = api.uuid(handle, uuid.data(), kUuidSize); code != kSuccess) {
    return closed_device(index, missing_of(code));
  }
  if (uuid.front() == '\0') {
    return closed_device(index, {MissingReason::failed, "the driver reports no UUID for it"});
  }
  DeviceInfo info;
  info.id = info.uuid = uuid.data();
  info.index = index;
  PciInfo pci;
  if (api.pci_info(handle, &pci) == kSuccess) info.pci_address = short_pci_address(pci.bus_id);
  std::array<char, kNameSize> name{};
  if (const ReturnCode code = api.name(handle, name.data(), kNameSize); code == kSuccess) {
    info.name = name.data();
    info.nvlinks = nvlink_peers(api, handle);
  } else {
    info.fault = missing_of(code);
  }
  return info;
}

}  // namespace

NvmlBackend::~NvmlBackend() {
  open_devices_.clear();  // frees samples of the driver, which must still be open
  events_.close();
  shutdown();
}

ReturnCode NvmlBackend::initialise() {
  const MutexLock lock(session_mutex_);
  if (initialised_) return kSuccess;
  const ReturnCode code = library_.api.init();
  initialised_ = code == kSuccess || code == kAlreadyInitialized;
  return initialised_ ? kSuccess : code;
}

void NvmlBackend::shutdown() {
  const MutexLock lock(session_mutex_);
  if (std::exchange(initialised_, false)) library_.api.shutdown();
}

Result<unsigned> NvmlBackend::open_and_count() {
  if (const ReturnCode code = initialise(); code != kSuccess) {
    return init_error(text_of(code),
                      errc_of(code) == Errc::denied ? Errc::denied : Errc::unavailable);
  }
  unsigned count = 0;
  if (const ReturnCode code = library_.api.device_count(&count); code != kSuccess) {
    shutdown();  // a session that cannot count its GPUs is useless
    return query_error(text_of(code), errc_of(code));
  }
  return count;
}

Result<DriverSession> NvmlBackend::start() {
  const auto count = GPUYARD_TRY(open_and_count());
  const bool own_time = library_.has_own_time != nullptr && library_.has_own_time() != 0;
  return DriverSession{driver_info(library_), count, own_time};
}

DeviceInfo NvmlBackend::open(std::uint32_t index) {
  DeviceHandle handle = nullptr;
  const ReturnCode code = library_.api.handle_by_index(index, &handle);
  if (code != kSuccess) return closed_device(index, missing_of(code));
  DeviceInfo info = describe_device(library_.api, index, handle);
  const MutexLock lock(devices_mutex_);
  const auto [known, added] =
      open_devices_.try_emplace(info.id, OpenDevice{index, handle, nullptr, {}});
  if (!added && known->second.index != index) {
    return closed_device(index, {MissingReason::failed, "another GPU has the same UUID"});
  }
  known->second.handle = handle;
  known->second.power_limit_range.reset();
  known->second.reader = std::make_shared<GpuReader>(library_.api, handle,
                                                     throttle_time_fields(cuda_version(library_)));
  return info;
}

Result<NvmlBackend::OpenDevice> NvmlBackend::find_open(const DeviceId& id) const {
  const MutexLock lock(devices_mutex_);
  const auto found = open_devices_.find(id);
  if (found != open_devices_.end()) return found->second;
  return Error{Errc::not_found, fmt::format("no GPU {} is open", id)};
}

Sample NvmlBackend::read(const DeviceId& id, ProbeSet probes) {
  const auto open = find_open(id);
  if (!open) return missing_sample(probes, missing_of(kGpuNotFound), BootClock::now());
  return open->reader->read(probes);
}

Result<std::optional<DeviceEvent>> NvmlBackend::next_event(Duration timeout) {
  std::map<DeviceId, DeviceHandle> open;
  {
    const MutexLock lock(devices_mutex_);
    for (const auto& [id, opened] : open_devices_) open.emplace(id, opened.handle);
  }
  return events_.next_event(open, timeout);
}

// The operator of a simulated GPU decides at each call who may change it.
Result<void> NvmlBackend::check_control() {
  if (library_.simulated) return {};
  return check_privilege(effective_privilege());
}

Result<SettingState> NvmlBackend::read_setting(const DeviceId& id, SettingKind kind) {
  const auto open = GPUYARD_TRY(find_open(id));
  if (kind != SettingKind::power_limit) return read_device_setting(library_.api, open.handle, kind);
  if (open.power_limit_range)
    return read_power_limit(library_.api, open.handle, *open.power_limit_range);
  auto state = read_device_setting(library_.api, open.handle, kind);
  if (state && state->allowed && state->by_default) keep_power_limit_range(id, *state);
  return state;
}

// Both calls are asked once each time the GPU is opened: a change of its power limit reads it
// twice.
void NvmlBackend::keep_power_limit_range(const DeviceId& id, SettingState range) {
  range.now.reset();
  const MutexLock lock(devices_mutex_);
  const auto found = open_devices_.find(id);
  if (found != open_devices_.end()) found->second.power_limit_range = range;
}

Result<void> NvmlBackend::apply(const DeviceId& id, const Setting& setting) {
  const auto open = GPUYARD_TRY(find_open(id));
  return write_device_setting(library_.api, open.handle, setting);
}

Result<void> NvmlBackend::clear_ecc(const DeviceId& id, EccCounter counter) {
  const auto open = GPUYARD_TRY(find_open(id));
  return clear_ecc_counter(library_.api, open.handle, counter);
}

Result<std::int64_t> NvmlBackend::total_energy(const DeviceId& id) {
  const auto open = GPUYARD_TRY(find_open(id));
  return read_total_energy(library_.api, open.handle);
}

Result<std::unique_ptr<Backend>> make_backend(const std::string& path) {
  auto library = GPUYARD_TRY(load_library(path));
  return std::unique_ptr<Backend>(std::make_unique<NvmlBackend>(std::move(library)));
}

}  // namespace gpuyard::nvml
