// What a cluster knows of its GPUs, as gpuyard's agents have said it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "cli/kube/plan.h"
#include "cli/screen/screen.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

struct KubeNode {
  std::string node;
  std::string status;
  std::string reason;
  std::string message;
  std::optional<std::string> since;
  std::optional<std::string> taint;
  std::vector<std::string> tainted_devices;
};
BOOST_DESCRIBE_STRUCT(KubeNode, (), (node, status, reason, message, since, taint, tainted_devices))
GPUYARD_ABOUT(
    KubeNode,
    {"status",
     "Of the condition: True (the GPUs are healthy), False, Unknown, or \"\": none is set."},
    {"since", "When that status began."},
    {"taint", "The value of the Node's taint gpuyard.io/gpu-sick; null: none."},
    {"tainted_devices", "DRIVER/POOL/DEVICE=VALUE of each device that a rule taints."})

struct KubeStatus {
  int schema = protocol::kSchemaVersion;
  std::string condition;
  std::optional<std::string> device_taints;
  std::vector<KubeNode> nodes;
};
BOOST_DESCRIBE_STRUCT(KubeStatus, (), (schema, condition, device_taints, nodes))
GPUYARD_ABOUT(KubeStatus, {"condition", "The condition's type."},
              {"device_taints", "The API version that serves DeviceTaintRules; null: none."},
              {"nodes", "Those with a condition, a taint or a rule of an agent."})

namespace kube {

// Leaves out the nodes of which no agent has said anything. `rules`: also those of others.
KubeStatus status_of(std::string_view condition_type, ResourceApi, const std::vector<SeenNode>&,
                     const std::vector<DeviceRule>& rules);

Printable status_text(const KubeStatus&, WallTime now, const Screen&);

}  // namespace kube
}  // namespace gpuyard::cli
