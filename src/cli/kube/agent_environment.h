// The clock and the random numbers of the agent, which a test replaces.
#pragma once

#include <functional>

#include "cli/kube/plan.h"

namespace gpuyard::cli::kube {

struct AgentEnvironment {
  std::function<Moment()> now;
  std::function<double()> random;  // 0 to 1
};

}  // namespace gpuyard::cli::kube
