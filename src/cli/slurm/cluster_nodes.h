// The free GPUs of a Slurm cluster by node: the answer of `gpuyard free` through Slurm. A GPU of a
// node that Slurm does not use now is not free, and its number is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "base/result.h"
#include "cli/verbs.h"
#include "faces/protocol/answer.h"

namespace gpuyard::cli {

struct ClusterNodeGpus {
  std::string type;
  std::int64_t total = 0;
  std::optional<std::int64_t> free;
};
BOOST_DESCRIBE_STRUCT(ClusterNodeGpus, (), (type, total, free))
GPUYARD_ABOUT(ClusterNodeGpus, {"type", "Type in gres.conf; empty: the GPUs have none."},
              {"free", "GPUs without a job; null: unknown, or the node takes no jobs."})

struct ClusterNode {
  std::string host;
  std::string state;
  bool available = false;
  std::string reason;
  std::vector<ClusterNodeGpus> gpus;
};
BOOST_DESCRIBE_STRUCT(ClusterNode, (), (host, state, available, reason, gpus))
GPUYARD_ABOUT(ClusterNode, {"state", "State in Slurm's word, such as mixed or idle+drain."},
              {"available", "The node takes jobs."},
              {"reason", "Why it is drained or down; empty: no reason is set."})

struct ClusterFree {
  int schema = protocol::kSchemaVersion;
  bool enough = false;
  std::string why;
  std::int64_t capacity = 0;
  std::vector<ClusterNode> nodes;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(ClusterFree, (), (schema, enough, why, capacity, nodes, notes))
GPUYARD_ABOUT(ClusterFree,
              {"enough", "One available node has the requested number of GPUs without a job."},
              {"why", "Why there are not enough; otherwise empty."},
              {"capacity", "Number of matching GPUs in the cluster, on unavailable nodes as well."},
              {"nodes", "Nodes with matching GPUs."})

namespace slurm {

// The words of sinfo for the nodes.
std::vector<std::string> nodes_query();

// Returns the GPUs that match from what nodes_query() prints. Errors: Errc::unavailable, no line is
// a node; Errc::not_found, no type of the cluster matches --model.
Result<ClusterFree> parse_free(std::string_view sinfo, const ClaimOptions& wanted);

}  // namespace slurm
}  // namespace gpuyard::cli
