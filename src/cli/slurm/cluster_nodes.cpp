#include "cli/slurm/cluster_nodes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/lease/lease_text.h"
#include "cli/slurm/fixed_columns.h"
#include "cli/slurm/gres.h"
#include "cli/slurm/sinfo_types.h"

namespace gpuyard::cli::slurm {
namespace {

struct NodeField {
  enum Index : std::size_t { host, state, gres, used, reason };
};
constexpr std::array kNodeColumns = {
    FixedColumn{"NodeHost", 64},  FixedColumn{"StateComplete", 64}, FixedColumn{"Gres", 200},
    FixedColumn{"GresUsed", 200}, FixedColumn{"Reason", 120},
};

// Whether jobs start on a node in this state, such as "mixed" or "idle+planned". A state or a flag
// that is not listed keeps jobs away, or is unknown.
bool takes_jobs(std::string_view state) {
  constexpr std::array<std::string_view, 3> kStates = {"idle", "mixed", "allocated"};
  constexpr std::array<std::string_view, 4> kFlags = {"planned", "completing", "cloud",
                                                      "dynamic_norm"};
  if (std::ranges::find(kStates, take_until('+', state)) == kStates.end()) return false;
  while (!state.empty()) {
    if (std::ranges::find(kFlags, take_until('+', state)) == kFlags.end()) return false;
  }
  return true;
}

// The GPUs of one type that no job has; nothing if `used` does not say it.
std::optional<std::int64_t> free_gpus(const ClusterNodeGpus& gpus,
                                      const std::vector<GresGpus>& used) {
  std::int64_t in_use = 0;
  bool known = false;
  for (const GresGpus& one : used) {
    if (one.type != gpus.type) continue;
    known = true;
    in_use += one.count;
  }
  if (!known) return std::nullopt;
  return std::max<std::int64_t>(gpus.total - in_use, 0);
}

// Nothing if the line is no line of a node.
std::optional<ClusterNode> node_of(const FixedRow& row) {
  if (row[NodeField::host].text.empty() || row[NodeField::state].text.empty()) return std::nullopt;
  const auto gres =
      row[NodeField::gres].cut ? std::nullopt : parse_gres_list(row[NodeField::gres].text);
  if (!gres || row[NodeField::host].cut) return std::nullopt;
  ClusterNode node;
  node.host = row[NodeField::host].text;
  node.state = row[NodeField::state].marked();
  node.available = !row[NodeField::state].cut && takes_jobs(node.state);
  if (row[NodeField::reason].text != "none") node.reason = row[NodeField::reason].marked();
  const auto used =
      row[NodeField::used].cut ? std::nullopt : parse_gres_list(row[NodeField::used].text);
  for (const GresGpus& one : *gres) {
    // A type can be in the list more than once, for the GPUs of each socket.
    const auto same = std::ranges::find(node.gpus, one.type, &ClusterNodeGpus::type);
    if (same == node.gpus.end()) {
      node.gpus.push_back({one.type, one.count, {}});
    } else {
      same->total += one.count;
    }
  }
  if (!node.available || !used) return node;
  for (ClusterNodeGpus& gpus : node.gpus) gpus.free = free_gpus(gpus, *used);
  return node;
}

Result<std::vector<ClusterNode>> parse_nodes(std::string_view sinfo,
                                             std::vector<std::string>& notes) {
  const FixedRows found = parse_fixed(kNodeColumns, sinfo);
  std::vector<ClusterNode> nodes;
  std::size_t malformed = found.malformed;
  for (const FixedRow& row : found.rows) {
    auto node = node_of(row);
    if (!node) {
      ++malformed;
    } else if (std::ranges::find(nodes, node->host, &ClusterNode::host) == nodes.end()) {
      nodes.push_back(*std::move(node));  // once, if it is in several partitions
    }
  }
  if (malformed == 0) return nodes;
  const std::string note =
      fmt::format("{} line{} of sinfo could not be read", malformed, malformed == 1 ? "" : "s");
  if (nodes.empty()) {
    return Error{Errc::unavailable, note, "its format is not that of Slurm 22.05",
                 "sinfo --version"};
  }
  notes.push_back(note + ".");
  return nodes;
}

// Leaves the GPUs of the types that --model means, and the nodes that have some.
Result<void> keep_model(std::vector<ClusterNode>& nodes, const std::string& model) {
  std::vector<std::string> types;
  for (const ClusterNode& node : nodes) {
    for (const ClusterNodeGpus& gpus : node.gpus) types.push_back(gpus.type);
  }
  std::ranges::sort(types);
  types.erase(std::ranges::unique(types).begin(), types.end());
  const auto matching = types_of_model(types, model);
  if (matching.empty()) {
    return Error{Errc::not_found, fmt::format("no GPU type of this cluster matches \"{}\"", model),
                 fmt::format("its types are {}", fmt::join(types, ", "))};
  }
  for (ClusterNode& node : nodes) {
    std::erase_if(node.gpus, [&](const ClusterNodeGpus& gpus) {
      return std::ranges::find(matching, gpus.type) == matching.end();
    });
  }
  return {};
}

// The most GPUs that a job on this node could have: of one type if the job names one.
std::int64_t most_free(const ClusterNode& node, bool of_one_type) {
  std::int64_t most = 0;
  std::int64_t sum = 0;
  for (const ClusterNodeGpus& gpus : node.gpus) {
    most = std::max(most, gpus.free.value_or(0));
    sum += gpus.free.value_or(0);
  }
  return of_one_type ? most : sum;
}

}  // namespace

std::vector<std::string> nodes_query() {
  return {"sinfo", "-h", "-N", "-O", fixed_format(kNodeColumns)};
}

Result<ClusterFree> parse_free(std::string_view sinfo, const ClaimOptions& wanted) {
  ClusterFree answer;
  answer.nodes = GPUYARD_TRY(parse_nodes(sinfo, answer.notes));
  if (wanted.request.model) GPUYARD_TRY(keep_model(answer.nodes, *wanted.request.model));
  std::erase_if(answer.nodes, [](const ClusterNode& node) { return node.gpus.empty(); });
  std::int64_t most = 0;
  std::string host;
  for (const ClusterNode& node : answer.nodes) {
    for (const ClusterNodeGpus& gpus : node.gpus) answer.capacity += gpus.total;
    const std::int64_t here = most_free(node, wanted.request.model.has_value());
    if (here <= most) continue;
    most = here;
    host = node.host;
  }
  answer.enough = most >= *wanted.request.gpus;
  if (answer.enough) return answer;
  answer.why = most == 0 ? "no available node has a GPU without a job"
                         : fmt::format("the node with the most, {}, has {} without a job", host,
                                       number_of_gpus(most));
  return answer;
}

}  // namespace gpuyard::cli::slurm
