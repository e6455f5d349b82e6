// Makes the srun line of a `gpuyard run` through Slurm. Pure: it runs nothing, and reads nothing of
// this machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

struct SrunPlace {
  std::string program;                      // the path of gpuyard, here and on the nodes
  std::string directory;                    // the working folder
  bool terminal = false;                    // the command's input and output are one
  bool in_job = false;                      // this shell has a job, whose GPUs are meant
  std::vector<std::string> gpu_types = {};  // of the cluster; only for --model
};

// Errc::invalid for what Slurm cannot do. Such an error says why, and has the nearest lines that
// work.
Result<void> check_for_slurm(const RunVerb&);

// Returns the words from "srun" on. Errors: those of check_for_slurm(); a --model that none or
// several of the types match.
Result<std::vector<std::string>> srun_line(const RunVerb&, const SrunPlace&);

// The minutes of --max-time, rounded up as Slurm does.
std::int64_t limit_minutes(double max_time_s);

}  // namespace gpuyard::cli::slurm
