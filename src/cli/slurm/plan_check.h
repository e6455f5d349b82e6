// Compares Slurm's files with this machine: with what slurmd finds, and with the driver. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/slurm/planned_node.h"

namespace gpuyard::cli::slurm {

// The output of `slurmd -C` and `slurmd -G` on this machine.
struct SlurmdReport {
  std::string hardware;
  std::string gpus;
};

struct Difference {
  std::string file;     // "slurm.conf"
  std::string problem;  // "CPUs=32, but slurmd finds 64"
  std::string line;     // as it should be; empty: the device file is to be left out
};

// REQUIRES: problems_of(host).empty().
std::vector<Difference> differences_of(const PlannedHost& host, std::string_view slurm_conf,
                                       const SlurmdReport& slurmd);

}  // namespace gpuyard::cli::slurm
