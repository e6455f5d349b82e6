// The ids of GPUs that device plugins hand to the kubelet: text, whose form says whether a
// container has the whole GPU.
#pragma once

#include <string_view>

namespace gpuyard::kubelet {

// Whether the id is of a GPU or a part of one: "GPU-..." or "MIG-...".
bool is_gpu_id(std::string_view id);

// Whether the id is a GPU's UUID and nothing else: "GPU-", then 8-4-4-4-12 hexadecimal digits. Any
// other id of a GPU is a share: "MIG-..." is an instance, "GPU-...::0" a time slice or an MPS
// client of NVIDIA's plugin, "GPU-...-4" a share of HAMi.
bool is_whole_gpu(std::string_view id);

// Returns the UUID that an id begins with; "" if it begins with none, as the id of a MIG instance.
std::string_view gpu_uuid_of(std::string_view id);

}  // namespace gpuyard::kubelet
