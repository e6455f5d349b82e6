// The GPUs that CUDA_VISIBLE_DEVICES shows a command, as CUDA reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli {

// A GPU of this machine as the variable may name it. CUDA's indexes are those of
// CUDA_DEVICE_ORDER=PCI_BUS_ID.
struct BoardName {
  std::uint32_t index = 0;
  std::string uuid;
  bool has_instances = false;  // is in MIG mode
};

struct VisibleGpus {
  std::vector<std::string> uuids;  // empty: the command has no GPU
  bool known = true;               // false: it has an instance, of a GPU that is not known
  std::string note;                // why it has fewer GPUs than are named; empty: it has them all
};

// Reads "0,2", UUIDs or unambiguous beginnings of them, and instances: "MIG-GPU-.../1/0" names its
// GPU, "MIG-..." is of the only GPU in MIG mode, if there is only one. CUDA stops at the first name
// that is none, shows nothing if a GPU is named twice, and shows one instance alone.
VisibleGpus visible_gpus(std::string_view variable, std::span<const BoardName> boards);

// Whether the variable shows no GPU on any machine: "", "-1", "NoDevFiles", "none".
bool is_without_gpus(std::string_view variable);

}  // namespace gpuyard::cli
