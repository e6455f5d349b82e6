// Slurm's queue, leases and free GPUs as tables, in the columns of the daemon's.
#pragma once

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "cli/slurm/cluster_jobs.h"
#include "cli/slurm/cluster_nodes.h"

namespace gpuyard::cli::slurm {

// Times are as of `now`.
Printable cluster_queue_text(const ClusterQueue&, WallTime now, const Screen&);
Printable cluster_leases_text(const ClusterLeases&, WallTime now, const Screen&);
Printable cluster_free_text(const ClusterFree&, const Screen&);

}  // namespace gpuyard::cli::slurm
