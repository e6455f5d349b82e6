// `gpuyard queue`, `leases`, `free` and `fleet free` where Slurm allocates the GPUs. They print
// Slurm's answer about its whole cluster, and need no daemon.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

// Whether Slurm answers, as is_through_slurm() has it. A daemon on another machine, `socket`,
// answers for itself; Errc::invalid: --through slurm is given as well.
Result<bool> answers_for_cluster(Through, const std::string& socket);

// Each prints the answer and returns the exit code: 5 if the controller does not respond.
int show_cluster_queue(bool json, ColorMode);
int show_cluster_leases(bool json, ColorMode);
// 7: no node has enough free GPUs; 2: Slurm cannot select GPUs by such an option.
int show_cluster_free(const ClaimOptions&, Through, bool json, ColorMode);

}  // namespace gpuyard::cli::slurm
