#include "cli/read/gpu_selection.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "cli/words.h"
#include "device/pci.h"

namespace gpuyard::cli {
namespace {

using protocol::Device;

bool is_called(const Device& device, std::string_view name) {
  if (name == std::to_string(device.index)) return true;
  if (!device.uuid.empty() && equals_ignoring_case(device.uuid, name)) return true;
  return !device.pci_address.empty() && device.pci_address == short_pci_address(name);
}

Error nobody_called(std::string_view name, std::size_t gpus) {
  return {Errc::not_found,
          fmt::format("there is no GPU \"{}\"; there {} {}, named by index, UUID or PCI address",
                      name, gpus == 1 ? "is" : "are", gpus)};
}

}  // namespace

Result<void> keep_only(protocol::Snapshot& snapshot, std::string_view names) {
  std::vector<Device> kept;
  for (const std::string& name : split(names, ',')) {
    const auto found = std::ranges::find_if(
        snapshot.devices, [&](const Device& device) { return is_called(device, name); });
    if (found == snapshot.devices.end()) return nobody_called(name, snapshot.devices.size());
    kept.push_back(*found);
  }
  snapshot.devices = std::move(kept);
  return {};
}

}  // namespace gpuyard::cli
