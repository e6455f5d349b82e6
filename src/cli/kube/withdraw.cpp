// gpuyard kube withdraw: removes what agents have set, once they are gone.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "cli/kube/cluster.h"
#include "cli/kube/cluster_wide.h"
#include "cli/kube/objects.h"
#include "cli/kube/verbs.h"
#include "cli/screen/output.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Answer;
using gpuyard::kube::Client;
using gpuyard::kube::Outcome;
using gpuyard::kube::PatchType;

constexpr int kMaxAttempts = 5;  // of a write that meets those of others

struct Counts {
  int conditions = 0;
  int taints = 0;
  int rules = 0;
};

bool is_tainted(const SeenNode& node) {
  return std::ranges::find(node.taints, kNodeTaintKey, &SeenTaint::key) != node.taints.end();
}

Result<void> remove_condition(const Client& client, const SeenNode& node, std::string_view type) {
  const Answer answer = client.patch(node_path(node.name, "status"), PatchType::strategic_merge,
                                     condition_removal(type));
  if (!answer.ok() && answer.outcome != Outcome::absent) return error_of(answer);
  return {};
}

// The list of taints is replaced whole, so it is read anew for each attempt.
Result<void> remove_taint(const Client& client, const std::string& name) {
  Answer answer;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    answer = client.get(node_path(name));
    if (answer.outcome == Outcome::absent) return {};
    if (!answer.ok()) return error_of(answer);
    const auto node = GPUYARD_TRY(parse_node(answer.body, kConditionType));
    if (!is_tainted(node)) return {};
    answer = client.patch(node_path(name), PatchType::merge,
                          taints_patch({"", foreign_taints(node)}), node.resource_version);
    if (answer.ok() || answer.outcome == Outcome::absent) return {};
    if (answer.outcome != Outcome::conflict) break;
  }
  return error_of(answer);
}

Result<void> remove_rule(const Client& client, ResourceApi api, const DeviceRule& rule) {
  const Answer answer = client.remove(rule_path(api, rule.name), rule.uid);
  if (!answer.ok() && answer.outcome != Outcome::absent) return error_of(answer);
  return {};
}

// Goes on after an error, so that one node does not keep the others tainted; returns the first.
Result<void> remove_all(const Client& client, const KubeVerb& verb, const ClusterObjects& all,
                        Counts& counts) {
  Result<void> first;
  const auto count = [&](int& number, Result<void> done) {
    if (done) ++number;
    if (!done && first) first = std::move(done);
  };
  for (const DeviceRule& rule : all.rules) {
    if (!rule.owner || !is_own(rule, rule.owner->name)) continue;
    count(counts.rules, remove_rule(client, all.api, rule));
  }
  for (const SeenNode& node : all.nodes) {
    if (is_tainted(node)) count(counts.taints, remove_taint(client, node.name));
    if (node.condition)
      count(counts.conditions, remove_condition(client, node, verb.settings.condition_type));
  }
  return first;
}

}  // namespace

int withdraw(const KubeVerb& verb) {
  const auto client = open_client(verb.kubeconfig);
  if (!client) return print_error(client.error());
  const auto all = read_all(*client, verb.settings.condition_type, verb.settings.node);
  if (!all) return print_error(all.error());
  Counts counts;
  const auto done = remove_all(*client, verb, *all, counts);
  print(formatted("Removed: device taint rules {}, node taints {}, conditions {}.\n", counts.rules,
                  counts.taints, counts.conditions));
  return report_result(done);
}

}  // namespace gpuyard::cli::kube
