// Facts about a machine's NVIDIA GPUs that need no driver call, and advice from them for a user
// whose driver does not answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli {

struct MachineFacts {
  bool in_container = false;
  bool in_pod = false;                        // of Kubernetes; that is a container too
  std::optional<std::string> module_version;  // of the kernel module, if one is loaded
  std::vector<std::string> closed_nodes;      // /dev/nvidia* that this user may not open
  std::size_t gpus_on_pci = 0;
  std::optional<std::string> simulated_world;  // named by the environment
};

// `root` stands for "/" in tests.
MachineFacts machine_facts(const std::string& root = "");

// Advice for when NVML said `reason`: one sentence each, the likeliest first.
std::vector<std::string> advice_for(std::string_view reason, const MachineFacts&);
// Advice for when NVML works and there is no GPU.
std::vector<std::string> advice_without_gpus(const MachineFacts&);

// Returns the user of the process that listens at a Unix socket; nothing for root's, and if it is
// not known.
std::optional<std::string> listener_user(const std::string& socket);

}  // namespace gpuyard::cli
