#include "api/gpu_names.h"

#include <algorithm>

namespace gpuyard::api {

Result<std::vector<DeviceInfo>> gpus_named(const Snapshot& snapshot, std::string_view names) {
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  std::vector<DeviceInfo> gpus;
  if (names.empty()) {
    for (const DeviceState& device : snapshot.devices) gpus.push_back(device.info);
  }
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    auto found = find_device(snapshot, names.substr(0, comma));
    if (!found) return std::move(found).error();
    const DeviceInfo& info = (*found)->info;
    const bool known =
        std::ranges::any_of(gpus, [&](const DeviceInfo& gpu) { return gpu.id == info.id; });
    if (!known) gpus.push_back(info);
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return gpus;
}

}  // namespace gpuyard::api
