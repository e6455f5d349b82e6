#include "cli/kube/objects.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/try.h"

namespace gpuyard::cli::kube {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

boost::json::string_view json_text(std::string_view text) {
  return {text.data(), text.size()};
}

const value* value_in(const object& in, std::string_view key) {
  return in.if_contains(json_text(key));
}

// Empty, if the member is missing or something else.
const object& object_in(const object& in, std::string_view key) {
  static const object kNone;
  const value* const found = value_in(in, key);
  return found != nullptr && found->is_object() ? found->get_object() : kNone;
}

const array& array_in(const object& in, std::string_view key) {
  static const array kNone;
  const value* const found = value_in(in, key);
  return found != nullptr && found->is_array() ? found->get_array() : kNone;
}

std::optional<std::string> optional_text_in(const object& in, std::string_view key) {
  const value* const found = value_in(in, key);
  if (found == nullptr || !found->is_string()) return std::nullopt;
  return std::string(found->get_string());
}

std::string text_in(const object& in, std::string_view key) {
  return optional_text_in(in, key).value_or("");
}

// Calls visit(object) for the entries of a list that are objects.
template <class Visit>
void each_object(const array& list, Visit&& visit) {
  for (const value& one : list) {
    if (one.is_object()) visit(one.get_object());
  }
}

Result<value> parse_object(std::string_view text) {
  auto document = json::parse(text);
  if (document && !document->is_object()) return Error{Errc::invalid, "expected a JSON object"};
  return document;
}

// --- Node ---

ConditionStatus parse_status(std::string_view word) {
  return word == "True"    ? ConditionStatus::yes
         : word == "False" ? ConditionStatus::no
                           : ConditionStatus::unknown;
}

// A resource of NVIDIA's device plugin: whole GPUs, shared ones ("nvidia.com/gpu.shared") or MIG.
bool is_gpu_resource(std::string_view name) {
  return name == "nvidia.com/gpu" || name.starts_with("nvidia.com/gpu.") ||
         name.starts_with("nvidia.com/mig-");
}

bool has_plugin_gpus(const object& capacity) {
  return std::ranges::any_of(capacity, [](const auto& one) {
    return is_gpu_resource({one.key().data(), one.key().size()}) && one.value().is_string() &&
           one.value().get_string() != "0";
  });
}

Result<SeenNode> node_of(const object& from, std::string_view condition_type) {
  const object& metadata = object_in(from, "metadata");
  SeenNode node{text_in(metadata, "name"), text_in(metadata, "uid"),
                text_in(metadata, "resourceVersion")};
  if (node.name.empty() || node.uid.empty()) return Error{Errc::invalid, "a Node without a uid"};
  const object& status = object_in(from, "status");
  each_object(array_in(status, "conditions"), [&](const object& one) {
    if (text_in(one, "type") != condition_type) return;
    node.condition = SeenCondition{
        {parse_status(text_in(one, "status")), text_in(one, "reason"), text_in(one, "message")},
        from_rfc3339(text_in(one, "lastTransitionTime")).value_or(WallTime{}),
        from_rfc3339(text_in(one, "lastHeartbeatTime")).value_or(WallTime{})};
  });
  each_object(array_in(object_in(from, "spec"), "taints"), [&](const object& one) {
    node.taints.push_back({text_in(one, "key"), text_in(one, "value"), text_in(one, "effect"),
                           boost::json::serialize(one)});
  });
  node.has_plugin_gpus = has_plugin_gpus(object_in(status, "capacity"));
  return node;
}

// --- ResourceSlice ---

// An attribute's name may begin with its domain: "gpu.nvidia.com/uuid".
std::string_view without_domain(std::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

// Sets which GPU the device is, or belongs to.
void read_gpu(const object& from, SliceDevice& device) {
  std::string own;
  std::string parent;
  for (const auto& one : object_in(from, "attributes")) {
    if (!one.value().is_object()) continue;
    const auto name = without_domain({one.key().data(), one.key().size()});
    if (name == "uuid") own = text_in(one.value().get_object(), "string");
    if (name == "parentUUID") parent = text_in(one.value().get_object(), "string");
  }
  device.is_part = !parent.empty();
  device.uuid = device.is_part ? parent : own;
}

std::int64_t generation_of(const object& pool) {
  const value* const generation = value_in(pool, "generation");
  return generation != nullptr && generation->is_int64() ? generation->get_int64() : 0;
}

// The devices of one pool in the slices of its newest generation.
struct Pool {
  std::int64_t generation = 0;
  std::vector<SliceDevice> devices = {};
};

// --- DeviceTaintRule ---

Result<DeviceRule> rule_of(const object& from) {
  const object& metadata = object_in(from, "metadata");
  const object& spec = object_in(from, "spec");
  const object& selector = object_in(spec, "deviceSelector");
  const object& taint = object_in(spec, "taint");
  DeviceRule rule{.name = text_in(metadata, "name"),
                  .uid = text_in(metadata, "uid"),
                  .label = text_in(object_in(metadata, "labels"), kNodeLabel),
                  .driver = optional_text_in(selector, "driver"),
                  .pool = optional_text_in(selector, "pool"),
                  .device = optional_text_in(selector, "device"),
                  .key = text_in(taint, "key"),
                  .value = text_in(taint, "value"),
                  .effect = text_in(taint, "effect")};
  if (rule.name.empty() || rule.uid.empty()) {
    return Error{Errc::invalid, "a DeviceTaintRule without a uid"};
  }
  const array& owners = array_in(metadata, "ownerReferences");
  if (owners.size() == 1 && owners.front().is_object()) {
    const object& owner = owners.front().get_object();
    rule.owner = Owner{text_in(owner, "kind"), text_in(owner, "name"), text_in(owner, "uid")};
  }
  return rule;
}

// --- Pod ---

bool is_daemon_set_controller(const object& owner) {
  const value* const controller = value_in(owner, "controller");
  return controller != nullptr && controller->is_bool() && controller->get_bool() &&
         text_in(owner, "kind") == "DaemonSet";
}

SeenPod seen_pod(const object& from) {
  const object& metadata = object_in(from, "metadata");
  SeenPod pod{.namespace_name = text_in(metadata, "namespace"),
              .name = text_in(metadata, "name"),
              .uid = text_in(metadata, "uid"),
              .node = text_in(object_in(from, "spec"), "nodeName"),
              .started_at = from_rfc3339(text_in(object_in(from, "status"), "startTime")),
              .is_being_deleted = optional_text_in(metadata, "deletionTimestamp").has_value()};
  each_object(array_in(metadata, "ownerReferences"), [&](const object& owner) {
    if (is_daemon_set_controller(owner)) pod.is_of_daemon_set = true;
  });
  return pod;
}

}  // namespace

std::string_view status_word(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::yes:
      return "True";
    case ConditionStatus::no:
      return "False";
    case ConditionStatus::unknown:
      break;
  }
  return "Unknown";
}

Result<SeenNode> parse_node(std::string_view text, std::string_view condition_type) {
  const auto document = GPUYARD_TRY(parse_object(text));
  return node_of(document.get_object(), condition_type);
}

Result<NodePage> parse_nodes(std::string_view text, std::string_view condition_type) {
  const auto document = GPUYARD_TRY(parse_object(text));
  const object& list = document.get_object();
  if (value_in(list, "items") == nullptr) return Error{Errc::invalid, "a NodeList without items"};
  NodePage page;
  each_object(array_in(list, "items"), [&](const object& one) {
    if (auto node = node_of(one, condition_type)) page.nodes.push_back(*std::move(node));
  });
  page.continue_at = text_in(object_in(list, "metadata"), "continue");
  return page;
}

Result<std::vector<SliceDevice>> parse_slices(std::string_view text) {
  const auto document = GPUYARD_TRY(parse_object(text));
  std::map<std::pair<std::string, std::string>, Pool> pools;  // by driver and pool
  each_object(array_in(document.get_object(), "items"), [&](const object& slice) {
    const object& spec = object_in(slice, "spec");
    const object& from = object_in(spec, "pool");
    SliceDevice device;
    device.node = text_in(spec, "nodeName");
    device.driver = text_in(spec, "driver");
    device.pool = text_in(from, "name");
    Pool& pool = pools[{device.driver, device.pool}];
    const std::int64_t generation = generation_of(from);
    if (generation < pool.generation) return;
    if (generation > pool.generation) pool = {generation};
    each_object(array_in(spec, "devices"), [&](const object& one) {
      device.device = text_in(one, "name");
      read_gpu(one, device);
      pool.devices.push_back(device);
    });
  });
  std::vector<SliceDevice> devices;
  for (auto& [name, pool] : pools) {
    std::ranges::move(pool.devices, std::back_inserter(devices));
  }
  return devices;
}

Result<DeviceRule> parse_rule(std::string_view text) {
  const auto document = GPUYARD_TRY(parse_object(text));
  return rule_of(document.get_object());
}

Result<std::vector<DeviceRule>> parse_rules(std::string_view text) {
  const auto document = GPUYARD_TRY(parse_object(text));
  std::vector<DeviceRule> rules;
  each_object(array_in(document.get_object(), "items"), [&](const object& one) {
    if (auto rule = rule_of(one)) rules.push_back(*std::move(rule));
  });
  return rules;
}

// A pod that was left out could make two look like one, so a malformed one is an error.
Result<PodPage> parse_pods(std::string_view text) {
  const auto document = GPUYARD_TRY(parse_object(text));
  const object& list = document.get_object();
  const value* const items = value_in(list, "items");
  if (items == nullptr || !items->is_array()) {
    return Error{Errc::invalid, "a PodList without items"};
  }
  PodPage page;
  for (const value& item : items->get_array()) {
    SeenPod pod = item.is_object() ? seen_pod(item.get_object()) : SeenPod{};
    if (pod.namespace_name.empty() || pod.name.empty() || pod.uid.empty()) {
      return Error{Errc::invalid, "a Pod without a namespace, a name or a uid"};
    }
    page.pods.push_back(std::move(pod));
  }
  page.is_last = text_in(object_in(list, "metadata"), "continue").empty();
  return page;
}

bool serves_resource(std::string_view text, std::string_view plural) {
  const auto document = parse_object(text);
  bool found = false;
  if (!document) return found;
  each_object(array_in(document->get_object(), "resources"),
              [&](const object& one) { found = found || text_in(one, "name") == plural; });
  return found;
}

std::string condition_patch(const WriteCondition& step) {
  const object condition{{"type", step.type},
                         {"status", json_text(status_word(step.text.status))},
                         {"reason", step.text.reason},
                         {"message", step.text.message},
                         {"lastTransitionTime", to_rfc3339(step.changed_at)},
                         {"lastHeartbeatTime", to_rfc3339(step.written_at)}};
  return boost::json::serialize(object{{"status", object{{"conditions", array{condition}}}}});
}

std::string condition_removal(std::string_view condition_type) {
  const object condition{{"type", json_text(condition_type)}, {"$patch", "delete"}};
  return boost::json::serialize(object{{"status", object{{"conditions", array{condition}}}}});
}

std::string rule_object(const DeviceRule& rule, ResourceApi api) {
  object metadata{{"name", rule.name}, {"labels", object{{json_text(kNodeLabel), rule.label}}}};
  if (rule.owner) {
    metadata["ownerReferences"] = array{object{{"apiVersion", "v1"},
                                               {"kind", rule.owner->kind},
                                               {"name", rule.owner->name},
                                               {"uid", rule.owner->uid}}};
  }
  // REQUIRES of plan(): a rule has all three. Without them it would taint every device.
  const object selector{{"driver", rule.driver.value()},
                        {"pool", rule.pool.value()},
                        {"device", rule.device.value()}};
  const object taint{{"key", rule.key}, {"value", rule.value}, {"effect", rule.effect}};
  return boost::json::serialize(
      object{{"apiVersion", json_text(version_name(api))},
             {"kind", "DeviceTaintRule"},
             {"metadata", std::move(metadata)},
             {"spec", object{{"deviceSelector", selector}, {"taint", taint}}}});
}

std::string event_object(const NodeEvent& event, std::string_view node) {
  const std::string at = to_rfc3339(event.at);
  const object metadata{{"name", event_name(node, event.number)},
                        {"namespace", json_text(kEventNamespace)}};
  const object about{
      {"apiVersion", "v1"}, {"kind", "Node"}, {"name", json_text(node)}, {"uid", event.node_uid}};
  return boost::json::serialize(
      object{{"apiVersion", "v1"},
             {"kind", "Event"},
             {"metadata", metadata},
             {"involvedObject", about},
             {"type", event.event.is_warning() ? "Warning" : "Normal"},
             {"reason", event.event.reason},
             {"message", event.event.message},
             {"source", object{{"component", "gpuyard"}, {"host", json_text(node)}}},
             {"reportingComponent", "gpuyard.io/agent"},
             {"reportingInstance", json_text(node)},
             {"firstTimestamp", at},
             {"lastTimestamp", at},
             {"count", 1}});
}

// The taints of others are sent as the JSON that was read.
std::string taints_patch(const PatchTaints& step) {
  return fmt::format(R"({{"spec":{{"taints":[{}]}}}})", fmt::join(step.taints, ","));
}

std::string_view version_name(ResourceApi api) {
  return api == ResourceApi::v1 ? "resource.k8s.io/v1" : "resource.k8s.io/v1beta2";
}

}  // namespace gpuyard::cli::kube
