// What an administrator chooses for the agent of a node.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuyard::cli::kube {

inline constexpr std::string_view kConditionType = "gpuyard.io/GPUsHealthy";

enum class DeviceEffect : std::uint8_t { none, no_schedule, no_execute };
enum class NodeTaintPolicy : std::uint8_t { needed, any, never };

struct Settings {
  std::string node;  // the name of this node
  std::string condition_type = std::string(kConditionType);
  DeviceEffect effect = DeviceEffect::no_schedule;
  NodeTaintPolicy taint_node = NodeTaintPolicy::needed;
  bool events = true;  // write Events about the Node
};

}  // namespace gpuyard::cli::kube
