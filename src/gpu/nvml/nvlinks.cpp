#include "nvml/nvlinks.h"

#include <optional>
#include <set>

#include "device/device.h"
#include "device/pci.h"

namespace gpuyard::nvml {
namespace {

// Drivers before 460 do not tell the kind, but who it is. What is neither a GPU nor a switch is a
// CPU (POWER9), through which GPUs are not linked.
std::optional<std::string> peer_of(const Api& api, DeviceHandle device, unsigned link) {
  unsigned kind = kNvlinkToGpu;
  if (api.nvlink_remote_type(device, link, &kind) == kSuccess) {
    if (kind == kNvlinkToSwitch) return std::string(kNvlinkSwitch);
    if (kind != kNvlinkToGpu) return std::nullopt;
  }
  PciInfo pci;
  if (api.nvlink_remote_pci(device, link, &pci) != kSuccess) return std::nullopt;
  pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
  if (pci.bus_id[0] == '\0') return std::nullopt;
  return short_pci_address(pci.bus_id);
}

}  // namespace

std::vector<std::string> nvlink_peers(const Api& api, DeviceHandle device) {
  std::set<std::string> peers;
  for (unsigned link = 0; link < kMaxNvlinks; ++link) {
    unsigned active = 0;
    const ReturnCode code = api.nvlink_state(device, link, &active);
    if (code == kInvalidArgument || code == kNotSupported || code == kFunctionNotFound) break;
    if (code != kSuccess || active != 1) continue;
    if (auto peer = peer_of(api, device, link)) peers.insert(*std::move(peer));
  }
  return {peers.begin(), peers.end()};
}

}  // namespace gpuyard::nvml
