#include "cli/kube/cluster_wide.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "cli/kube/cluster.h"
#include "cli/kube/objects.h"
#include "cli/kube/verbs.h"

namespace gpuyard::cli::kube {
namespace {

// A Node with many images has 30 KB.
constexpr unsigned kNodesPerPage = 200;
constexpr int kMaxPages = 500;  // Kubernetes is built for 5,000 nodes

using Nodes = Result<std::vector<SeenNode>>;

Nodes read_nodes(const gpuyard::kube::Client& client, const std::string& condition_type) {
  std::vector<SeenNode> nodes;
  gpuyard::kube::ListOptions options{.limit = kNodesPerPage};
  for (int pages = 0; pages < kMaxPages; ++pages) {
    const auto answer = client.list(node_path(""), options);
    if (!answer.ok()) return error_of(answer);
    auto page = parse_nodes(answer.body, condition_type);
    if (!page) return std::move(page).error();
    std::ranges::move(page->nodes, std::back_inserter(nodes));
    if (page->continue_at.empty()) return nodes;
    options.continue_at = std::move(page->continue_at);
  }
  return Error{Errc::internal,
               fmt::format("the API server lists more than {} nodes", kMaxPages * kNodesPerPage)};
}

Nodes read_node(const gpuyard::kube::Client& client, const std::string& condition_type,
                const std::string& name) {
  const auto answer = client.get(node_path(name));
  if (!answer.ok()) return error_of(answer);
  auto node = GPUYARD_TRY(parse_node(answer.body, condition_type));
  return std::vector{std::move(node)};
}

}  // namespace

Result<ClusterObjects> read_all(const gpuyard::kube::Client& client,
                                const std::string& condition_type, const std::string& node) {
  ClusterObjects all;
  ServedApi served;
  auto answer = read_served_api(client, served);
  if (!answer.ok()) return error_of(answer);
  all.api = served.rules;
  auto nodes =
      node.empty() ? read_nodes(client, condition_type) : read_node(client, condition_type, node);
  if (!nodes) return std::move(nodes).error();
  all.nodes = *std::move(nodes);
  if (all.api == ResourceApi::none) return all;
  const std::string labelled =
      node.empty() ? std::string(kNodeLabel) : fmt::format("{}={}", kNodeLabel, node_label(node));
  answer = client.list(rule_path(all.api), {.label_selector = labelled});
  if (!answer.ok()) return error_of(answer);
  auto rules = GPUYARD_TRY(parse_rules(answer.body));
  all.rules = std::move(rules);
  return all;
}

}  // namespace gpuyard::cli::kube
