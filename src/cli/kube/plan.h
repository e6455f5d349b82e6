// Compares what a cluster should know of this node's GPUs with what it knows, and says which writes
// make the difference go. Pure: no I/O and no clock of its own.
//
// Nothing is queued: a caller sends the first step, takes the API server's answer into `Seen`, and
// plans again. A step that meets a conflict is not repeated; the object is read, and the next plan
// has the right step for it.
//
//   DaemonReport --desired_state()--> Desired --+
//   API server, kubelet ----------------> Seen --+--> plan() --> steps --prepare()--> API server
//                                       Memory --+
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "cli/kube/desired_state.h"
#include "cli/kube/gpu_events.h"
#include "cli/kube/object_names.h"
#include "cli/kube/settings.h"

namespace gpuyard::cli::kube {

inline constexpr std::string_view kDeviceTaintKey = "gpuyard.io/sick";
inline constexpr std::string_view kNodeTaintKey = "gpuyard.io/gpu-sick";
inline constexpr std::string_view kCordonValue = "cordoned";
inline constexpr std::string_view kDriverDownRule = "driver-down";

// A message may have the value of a reading. A new one, if nothing else is new, is written this
// often.
inline constexpr Duration kMessageInterval = std::chrono::minutes(1);

// A device plugin gets this long to hide a bad GPU by itself.
inline constexpr Duration kPluginTimeout = std::chrono::seconds(15);

struct Moment {
  TimePoint boot{};  // for durations
  WallTime wall{};   // for the condition's times
};

// --- What the cluster knows ---

struct SeenCondition {
  ConditionText text;
  WallTime changed_at{};  // lastTransitionTime; 1970: there is none
  WallTime written_at{};  // lastHeartbeatTime; likewise
};

struct SeenTaint {
  std::string key;
  std::string value;
  std::string effect;
  std::string json;  // the whole taint, as it was read
};

struct SeenNode {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::optional<SeenCondition> condition = {};  // of our type
  std::vector<SeenTaint> taints = {};           // all, in their order
  bool has_plugin_gpus = false;                 // its capacity names GPUs of a device plugin
};

struct Owner {
  std::string kind;
  std::string name;
  std::string uid;

  friend bool operator==(const Owner&, const Owner&) = default;
};

// A DeviceTaintRule.
struct DeviceRule {
  std::string name;
  std::string uid = {};             // empty: it is to be made
  std::string label = {};           // the value of gpuyard.io/node
  std::optional<Owner> owner = {};  // the only ownerReference; empty: none or several
  // The selector. Without any of them a rule taints every device of the cluster.
  std::optional<std::string> driver = {};
  std::optional<std::string> pool = {};
  std::optional<std::string> device = {};
  std::string key = {};
  std::string value = {};
  std::string effect = {};  // as the API spells it

  bool has_content_of(const DeviceRule& other) const;  // all but the uid is the same
  friend bool operator==(const DeviceRule&, const DeviceRule&) = default;
};

// The version of resource.k8s.io that serves DeviceTaintRules. Slices may be served without them.
enum class ResourceApi : std::uint8_t { none, v1beta2, v1 };

// REQUIRES: it is no older than the answers to the caller's own writes.
struct Seen {
  std::optional<SeenNode> node = {};  // empty: the API server has none of that name
  ResourceApi api = ResourceApi::none;
  // The devices in the newest generation of each pool.
  std::vector<SliceDevice> devices = {};
  // The rules with our label, and the rules read by name after a conflict.
  std::vector<DeviceRule> rules = {};
  // UUIDs of the whole GPUs that the kubelet has from a device plugin and calls allocatable; empty:
  // it did not answer, or is not asked.
  std::optional<std::set<std::string>> allocatable = {};
};

// --- What outlives a step ---

// An alert on a GPU, as the cluster knows it.
struct PlacedAlert {
  std::string uuid;
  std::string value;

  friend bool operator==(const PlacedAlert&, const PlacedAlert&) = default;
};

// Is saved in /run and may be lost: what an administrator deleted is then made again. A save of
// another boot must not be loaded, since its moments are of another clock.
struct Memory {
  FlapRecords flaps = {};  // for desired_state()
  std::string node_uid = {};
  std::map<std::string, PlacedAlert> standing_rules = {};  // those that were seen, by name
  std::map<std::string, PlacedAlert> deleted_rules = {};   // those that an administrator deleted
  bool taint_stands = false;                               // the node's taint was seen
  std::map<std::string, std::string> taint_alerts = {};    // the alerts it is for: value by UUID
  std::map<std::string, std::string> deleted_taint_alerts = {};  // an administrator deleted it
  std::map<std::string, TimePoint> allocatable_since = {};       // of a bad GPU, by UUID
  bool plugin_seen =
      false;  // the kubelet has named GPUs of a device plugin since the agent's start
  ReportedEvents reported = {};                 // for events_of()
  std::vector<TimePoint> plugin_restarts = {};  // for the plugin restarter
};

// --- Steps ---

// PATCH nodes/NODE/status, a strategic merge.
struct WriteCondition {
  std::string type;
  ConditionText text;
  WallTime changed_at{};  // lastTransitionTime: changes with the status only
  WallTime written_at{};  // lastHeartbeatTime

  friend bool operator==(const WriteCondition&, const WriteCondition&) = default;
};

// POST devicetaintrules. A conflict: read the rule of that name into Seen and plan again.
struct CreateRule {
  DeviceRule rule;

  friend bool operator==(const CreateRule&, const CreateRule&) = default;
};

// DELETE devicetaintrules/NAME with the uid as precondition.
struct DeleteRule {
  std::string name;
  std::string uid;

  friend bool operator==(const DeleteRule&, const DeleteRule&) = default;
};

// PATCH nodes/NODE, a JSON merge patch of spec.taints, which replaces the whole list. The patch has
// the resourceVersion that the list was read with, so that a taint that was added since is refused
// as a conflict instead of lost. A condition that is written before it makes that version old.
struct PatchTaints {
  std::string resource_version;
  std::vector<std::string> taints;  // JSON; others' as they were read
  bool has_own = false;             // ours is one of them

  friend bool operator==(const PatchTaints&, const PatchTaints&) = default;
};

using Step = std::variant<WriteCondition, CreateRule, DeleteRule, PatchTaints>;

// Returns the writes in their order: the condition, the rules one after the other, the taints.
// Empty: the cluster knows what it should, or nothing may be written.
std::vector<Step> plan(const Settings&, const Desired&, const Seen&, Memory&, const Moment& now);

// The Node's taints but for ours, as they were read.
std::vector<std::string> foreign_taints(const SeenNode&);

// To be called, and the memory to be saved, before the step is sent: what the agent removes itself
// was not deleted by an administrator, even if the agent dies before the answer.
void prepare(Memory&, const Step&);

// Whether the rule is one that this node's agent made, now or when the Node had another uid. Others
// are never changed, whatever their name.
bool is_own(const DeviceRule&, std::string_view node);

}  // namespace gpuyard::cli::kube
