// The kubelet's PodResources API, v1, as plain values, and the reader of its two responses. Knows
// no connection.
//
// The messages: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::kubelet {

// A GPU, or a share of one, of a device plugin.
struct PluginDevice {
  std::string resource;  // "nvidia.com/gpu"
  std::string id;        // "GPU-..." or "MIG-..."
  bool shared = false;   // whether other containers may have the same GPU (device_id.h)
};

// A device that a container has from a device plugin.
struct AssignedDevice : PluginDevice {
  std::string container;
};

// A device that a container has from a claim (DRA). A ResourceSlice of that driver and pool says
// which GPU it is, if it is a GPU at all. Several pods may have the same claim.
struct ClaimedDevice {
  std::string container;
  std::string claim;
  std::string claim_namespace;
  std::string driver;  // "gpu.nvidia.com"
  std::string pool;
  std::string device;   // "gpu-0"
  bool shared = false;  // whether the claim has only a share of it (share_id, Kubernetes 1.34)
};

// The kubelet names a pod without its UID: a pod that is made again under its name cannot be told
// from the first.
struct Pod {
  std::string namespace_name;
  std::string name;
  std::vector<AssignedDevice> devices;
  std::vector<ClaimedDevice> claims;
};

// The devices that the kubelet would give to a pod: without those that their plugin calls
// unhealthy, and without those of DRA.
struct AllocatableDevices {
  std::vector<PluginDevice> devices;
};

// The largest response that is decoded. Without these bounds 16 MiB of empty messages would become
// a gigabyte of empty pods. A kubelet has 110 pods by default; a plugin that shares GPUs by memory
// may have thousands of devices.
inline constexpr std::size_t kMaxPods = 16'384;
inline constexpr std::size_t kMaxDevices = 65'536;  // of all pods together, from plugins and claims
// Of a name or an id. Kubernetes' longest is a resource's: a domain of 253, a slash and 63.
inline constexpr std::size_t kMaxNameBytes = 320;

// Decodes ListPodResourcesResponse: all pods, also those without a GPU. Leaves out devices of
// plugins that are no GPUs, and claimed resources without a device.
// Thread: any. Errc::invalid: the message is malformed, has a pod without name or namespace, or
// exceeds the above.
Result<std::vector<Pod>> decode_pods(std::string_view message);

// Decodes AllocatableResourcesResponse. Thread and errors as above.
Result<AllocatableDevices> decode_allocatable_devices(std::string_view message);

}  // namespace gpuyard::kubelet
