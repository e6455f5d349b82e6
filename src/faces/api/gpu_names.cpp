#include "faces/api/gpu_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/try.h"

namespace gpuyard::api {

Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot& snapshot, std::string_view names) {
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  std::vector<DeviceInfo> gpus;
  if (names.empty()) {
    for (const DeviceState& device : snapshot.devices) gpus.push_back(device.info);
  }
  for (bool more = !names.empty(); more;) {
    const std::size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    more = comma != names.npos;
    if (more) names.remove_prefix(comma + 1);
    if (name.empty()) return Error{Errc::invalid, "the list of GPUs contains an empty name"};
    auto found = GPUYARD_TRY(find_device(snapshot, name));
    const DeviceInfo& info = found->info;
    const bool known =
        std::ranges::any_of(gpus, [&](const DeviceInfo& gpu) { return gpu.id == info.id; });
    if (!known) gpus.push_back(info);
  }
  return gpus;
}

Result<std::vector<DeviceId>> resolve_gpu_ids(const Snapshot& snapshot, std::string_view names) {
  const auto gpus = GPUYARD_TRY(resolve_gpus(snapshot, names == "all" ? "" : names));
  std::vector<DeviceId> ids;
  for (const DeviceInfo& gpu : gpus) ids.push_back(gpu.id);
  return ids;
}

}  // namespace gpuyard::api
