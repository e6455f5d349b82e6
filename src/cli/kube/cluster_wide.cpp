#include "cli/kube/cluster_wide.h"

#include <utility>

#include <fmt/format.h>

#include "cli/kube/cluster.h"
#include "cli/kube/objects.h"
#include "cli/kube/verbs.h"

namespace gpuyard::cli::kube {

Result<ClusterObjects> read_all(const gpuyard::kube::Client& client,
                                const std::string& condition_type, const std::string& node) {
  ClusterObjects all;
  ServedApi served;
  auto answer = read_served_api(client, served);
  if (!answer.ok()) return error_of(answer);
  all.api = served.rules;
  if (node.empty()) {
    answer = client.list(node_path(""));
    if (!answer.ok()) return error_of(answer);
    all.nodes = parse_nodes(answer.body, condition_type);
  } else {
    answer = client.get(node_path(node));
    if (!answer.ok()) return error_of(answer);
    auto one = parse_node(answer.body, condition_type);
    if (!one) return std::move(one).error();
    all.nodes.push_back(*std::move(one));
  }
  if (all.api == ResourceApi::none) return all;
  const std::string labelled =
      node.empty() ? std::string(kNodeLabel) : fmt::format("{}={}", kNodeLabel, node_label(node));
  answer = client.list(rule_path(all.api), {.label_selector = labelled});
  if (!answer.ok()) return error_of(answer);
  auto rules = parse_rules(answer.body);
  if (!rules) return std::move(rules).error();
  all.rules = *std::move(rules);
  return all;
}

}  // namespace gpuyard::cli::kube
