#include "cli/kube/cluster.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/kube/objects.h"
#include "io/kube/resource.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Answer;
using gpuyard::kube::Outcome;
using gpuyard::kube::PatchType;
using gpuyard::kube::path_of;

constexpr const char* kGroup = "resource.k8s.io";

Answer malformed(const Error& error) {
  return {.outcome = Outcome::malformed,
          .message = "the API server's answer is malformed: " + error.text()};
}

}  // namespace

std::string node_path(std::string_view node, std::string_view subresource) {
  return path_of(
      {.plural = "nodes", .name = std::string(node), .subresource = std::string(subresource)});
}

std::string rule_path(ResourceApi api, std::string_view name) {
  return path_of({.group = kGroup,
                  .version = api == ResourceApi::v1 ? "v1" : "v1beta2",
                  .plural = "devicetaintrules",
                  .name = std::string(name)});
}

Answer read_served_api(const gpuyard::kube::Client& client, ServedApi& served) {
  Answer answer;
  for (const ResourceApi api : {ResourceApi::v1, ResourceApi::v1beta2}) {
    answer = client.get("/apis/" + std::string(version_name(api)));
    if (answer.outcome == Outcome::absent) continue;
    if (!answer.ok()) return answer;
    if (served.rules == ResourceApi::none && serves_resource(answer.body, "devicetaintrules")) {
      served.rules = api;
    }
    if (served.slices.empty() && serves_resource(answer.body, "resourceslices")) {
      served.slices = api == ResourceApi::v1 ? "v1" : "v1beta2";
    }
    if (served.rules != ResourceApi::none && !served.slices.empty()) break;
  }
  return {.outcome = Outcome::ok};
}

Cluster::Cluster(gpuyard::kube::Client client, std::string node, std::string condition_type)
    : client_(std::move(client)),
      event_client_(client_.with_timeout(kEventTimeout)),
      node_(std::move(node)),
      condition_type_(std::move(condition_type)) {}

Answer Cluster::read() {
  Seen seen;
  Answer answer = read_api(seen);
  if (answer.ok()) answer = read_node(seen);
  if (answer.ok()) answer = read_slices(seen);
  if (answer.ok()) answer = read_rules(seen);
  if (answer.ok()) seen_ = std::move(seen);
  return answer;
}

Answer Cluster::read_api(Seen& seen) {
  ServedApi served;
  Answer answer = read_served_api(client_, served);
  if (!answer.ok()) return answer;
  seen.api = served.rules;
  slice_version_ = std::move(served.slices);
  return answer;
}

Answer Cluster::read_node(Seen& seen) const {
  Answer answer = client_.get(node_path(node_));
  if (answer.outcome == Outcome::absent && !answer.reason.empty()) {
    return {.outcome = Outcome::ok};
  }
  return take_node(std::move(answer), seen);
}

Answer Cluster::take_node(Answer answer, Seen& seen) const {
  if (!answer.ok()) return answer;
  auto node = parse_node(answer.body, condition_type_);
  if (!node) return malformed(node.error());
  seen.node = *std::move(node);
  return answer;
}

Answer Cluster::read_slices(Seen& seen) const {
  if (slice_version_.empty()) return {.outcome = Outcome::ok};
  Answer answer = client_.list(
      path_of({.group = kGroup, .version = slice_version_, .plural = "resourceslices"}),
      {.field_selector = "spec.nodeName=" + node_});
  if (!answer.ok()) return answer;
  auto devices = parse_slices(answer.body);
  if (!devices) return malformed(devices.error());
  seen.devices = *std::move(devices);
  return answer;
}

Answer Cluster::read_rules(Seen& seen) {
  if (seen.api == ResourceApi::none) return {.outcome = Outcome::ok};
  Answer answer = client_.list(
      rule_path(seen.api), {.label_selector = fmt::format("{}={}", kNodeLabel, node_label(node_))});
  if (!answer.ok()) return answer;
  auto rules = parse_rules(answer.body);
  if (!rules) return malformed(rules.error());
  seen.rules = *std::move(rules);
  for (auto name = taken_names_.begin(); name != taken_names_.end();) {
    Answer taken = client_.get(rule_path(seen.api, *name));
    if (taken.outcome == Outcome::absent) {
      name = taken_names_.erase(name);
      continue;
    }
    if (!taken.ok()) return taken;
    auto rule = parse_rule(taken.body);
    if (!rule) return malformed(rule.error());
    if (std::ranges::find(seen.rules, rule->name, &DeviceRule::name) == seen.rules.end()) {
      seen.rules.push_back(*std::move(rule));
    }
    ++name;
  }
  return answer;
}

Answer Cluster::send(const Step& step) {
  return std::visit([&](const auto& one) { return write(one); }, step);
}

Answer Cluster::write(const WriteCondition& step) {
  return take_node(
      client_.patch(node_path(node_, "status"), PatchType::strategic_merge, condition_patch(step)),
      seen_);
}

Answer Cluster::write(const CreateRule& step) {
  Answer answer = client_.create(rule_path(seen_.api), rule_object(step.rule, seen_.api));
  if (answer.outcome == Outcome::already_exists) taken_names_.insert(step.rule.name);
  if (!answer.ok()) return answer;
  auto rule = parse_rule(answer.body);
  if (!rule) return malformed(rule.error());
  seen_.rules.push_back(*std::move(rule));
  return answer;
}

Answer Cluster::write(const DeleteRule& step) {
  Answer answer = client_.remove(rule_path(seen_.api, step.name), step.uid);
  if (answer.outcome == Outcome::absent) answer = {.outcome = Outcome::ok};
  if (answer.ok()) {
    std::erase_if(seen_.rules, [&](const DeviceRule& rule) { return rule.name == step.name; });
    taken_names_.erase(step.name);
  }
  return answer;
}

Answer Cluster::write(const PatchTaints& step) {
  return take_node(
      client_.patch(node_path(node_), PatchType::merge, taints_patch(step), step.resource_version),
      seen_);
}

Answer Cluster::write_event(const NodeEvent& event) {
  const std::string path =
      path_of({.plural = "events", .namespace_name = std::string(kEventNamespace)});
  return event_client_.create(path, event_object(event, node_));
}

}  // namespace gpuyard::cli::kube
