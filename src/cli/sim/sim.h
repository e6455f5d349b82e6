// The actions of gpuyard sim that have a file of their own.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

// Returns the directory of the world that the verb names, or else of the user's own. Where none
// runs there, verbs that change a world mean that of `gpuyard serve --simulate`, if it has the
// usual state.
std::string world_of(const SimVerb&);

Result<void> sim_inject(const SimVerb&);
int sim_run(const SimVerb&);
Result<void> sim_attach(const SimVerb&);

}  // namespace gpuyard::cli
