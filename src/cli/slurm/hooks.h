// The hooks that Slurm runs on a node: the health check, and the beginning and the end of a job.
// They ask the daemon over its socket, briefly: without an answer no job is hurt and no node
// drained, and what could not be reported to the daemon waits in the spool for the next hook.
#pragma once

#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

// Each returns the exit code for Slurm: 1 only from prolog(), when a GPU of the job is sick.
int health(const SlurmVerb&);
int prolog(const SlurmVerb&);
int epilog(const SlurmVerb&);

// The hook of the controller, after a job: tells the accounting what the job used.
int comment(const SlurmVerb&);

// Writes the scripts that Slurm runs, and says which lines of slurm.conf are there. Exit code 1 if
// one is missing.
int install(const SlurmVerb&);

// Writes the files of a cluster of many machines.
int plan(const SlurmVerb&);

}  // namespace gpuyard::cli::slurm
