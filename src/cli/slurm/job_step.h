// The part of `gpuyard run` through Slurm that runs on the job's node. It finds the lease that the
// prolog has made for the job, runs the command, and says what it used. The lease is the job's:
// this program neither begins nor ends it.
#pragma once

#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

// Runs the command in verb.job_directory; returns its exit code. 126: that folder is not here; 2:
// the job does not have these GPUs; 5 or 6, without the job's lease, if an option needs it.
int run_job_step(const RunVerb&);

}  // namespace gpuyard::cli::slurm
