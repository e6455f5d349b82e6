// Reads the conditions, taints and rules of all nodes of a cluster, for an administrator.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/kube/plan.h"
#include "io/kube/client.h"

namespace gpuyard::cli::kube {

struct ClusterObjects {
  ResourceApi api = ResourceApi::none;
  std::vector<SeenNode> nodes = {};
  std::vector<DeviceRule> rules = {};  // those with an agent's label
};

// `node`: of this one only; "": of all. Errc::not_found: there is no such node.
Result<ClusterObjects> read_all(const gpuyard::kube::Client&, const std::string& condition_type,
                                const std::string& node);

}  // namespace gpuyard::cli::kube
