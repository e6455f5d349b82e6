// `gpuyard run` where Slurm allocates the GPUs: it runs srun, which starts our own program on the
// node (job_step.h). In a job, the command runs on the GPUs of that job.
#pragma once

#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

// Whether --through says so, else [lease] through in the files that a daemon started here would
// read. Files that this user cannot read count as missing.
bool is_through_slurm(Through);

// Returns the exit code of the command; 7 if Slurm did not grant the GPUs in time, 5 without srun
// or a controller, 2 for what Slurm cannot do.
int run_through_slurm(const RunVerb&);

}  // namespace gpuyard::cli::slurm
