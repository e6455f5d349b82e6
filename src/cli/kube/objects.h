// The objects of Kubernetes that the agent reads and writes, as JSON. Pure: sends nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/kube/gpu_events.h"
#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {

inline constexpr std::string_view kNodeLabel = "gpuyard.io/node";
// The namespace of Events about objects that have none, such as Nodes.
inline constexpr std::string_view kEventNamespace = "default";

// Errc::invalid: the text is no Node, or has no name or uid. `condition_type`: of ours.
Result<SeenNode> parse_node(std::string_view text, std::string_view condition_type);

// A part of a NodeList; a malformed item is left out.
struct NodePage {
  std::vector<SeenNode> nodes = {};
  std::string continue_at = {};  // of the next page; "": this is the last
};
Result<NodePage> parse_nodes(std::string_view text, std::string_view condition_type);

// The devices of a ResourceSliceList: of each pool those of its newest generation. The UUID of a
// device is its attribute parentUUID, of a partition, or uuid, whatever domain they stand in.
Result<std::vector<SliceDevice>> parse_slices(std::string_view text);

// Errc::invalid: the text is no DeviceTaintRule, or has no name or uid.
Result<DeviceRule> parse_rule(std::string_view text);
// The items of a DeviceTaintRuleList; one that is malformed is left out.
Result<std::vector<DeviceRule>> parse_rules(std::string_view text);

// A pod, as far as a restart of a device plugin needs it.
struct SeenPod {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string node = {};                    // spec.nodeName; empty: not scheduled yet
  std::optional<WallTime> started_at = {};  // by its node's clock; empty: the kubelet has not yet
  bool is_being_deleted = false;
  bool is_of_daemon_set = false;  // a controller creates another in its place, on the same node

  friend bool operator==(const SeenPod&, const SeenPod&) = default;
};

// A part of a PodList. Errc::invalid: the text is no list, or a pod has no name, namespace or uid.
struct PodPage {
  std::vector<SeenPod> pods = {};
  bool is_last = true;  // the server has no more
};
Result<PodPage> parse_pods(std::string_view text);

// Whether an APIResourceList has this resource.
bool serves_resource(std::string_view text, std::string_view plural);

// The bodies of the steps: a strategic merge patch of nodes/NODE/status, a DeviceTaintRule, a merge
// patch of nodes/NODE without its resourceVersion.
std::string condition_patch(const WriteCondition&);
std::string rule_object(const DeviceRule&, ResourceApi);
std::string taints_patch(const PatchTaints&);

// An Event about this node. `kubectl describe node` finds it by the Node's name and uid, and only
// if the reference to the Node names no namespace.
std::string event_object(const NodeEvent&, std::string_view node);

// A strategic merge patch of nodes/NODE/status that removes the condition of this type.
std::string condition_removal(std::string_view condition_type);

// "True", "False" or "Unknown", as a condition has it.
std::string_view status_word(ConditionStatus);

// "resource.k8s.io/v1"
std::string_view version_name(ResourceApi);

}  // namespace gpuyard::cli::kube
