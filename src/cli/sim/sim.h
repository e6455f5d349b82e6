// The actions of gpuyard sim that have a file of their own.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

std::string world_of(const SimVerb&);

Result<void> sim_inject(const SimVerb&);
int sim_run(const SimVerb&);
Result<void> sim_attach(const SimVerb&);

}  // namespace gpuyard::cli
