// Decodes any bytes as the two responses of a kubelet. A pod that is decoded has a name, and a
// device is a GPU's.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "io/kubelet/device_id.h"
#include "io/kubelet/pod_resources.h"
#include "require.h"

namespace gpuyard::kubelet {
namespace {

void check_device(const PluginDevice& device) {
  fuzz::require(is_gpu_id(device.id), "only GPUs are read");
  fuzz::require(device.shared != is_whole_gpu(device.id), "each share is marked");
}

void check_pods(std::string_view bytes) {
  const auto pods = decode_pods(bytes);
  if (!pods) return;
  std::size_t devices = 0;
  for (const Pod& pod : *pods) {
    fuzz::require(!pod.name.empty() && !pod.namespace_name.empty(), "a pod has a name");
    for (const AssignedDevice& device : pod.devices) check_device(device);
    devices += pod.devices.size() + pod.claims.size();
  }
  // The smallest pod and the smallest device take this many bytes.
  fuzz::require(pods->size() * 8 + devices * 3 <= bytes.size(), "all of it was in the bytes");
}

void check_allocatable(std::string_view bytes) {
  const auto allocatable = decode_allocatable_devices(bytes);
  if (!allocatable) return;
  for (const PluginDevice& device : allocatable->devices) check_device(device);
}

}  // namespace
}  // namespace gpuyard::kubelet

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  gpuyard::kubelet::check_pods(bytes);
  gpuyard::kubelet::check_allocatable(bytes);
  return 0;
}
