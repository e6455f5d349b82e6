// The page that a plan has for people: what to do on each machine, in order, as commands.
#pragma once

#include <string>
#include <vector>

#include "cli/slurm/planned_node.h"

namespace gpuyard::cli::slurm {

struct PageFacts {
  std::vector<std::string> nodes;  // the names of all machines
  std::string controller;          // one of them
  bool accounting = false;
  std::vector<std::string> notes;
  std::string gpu_type;  // one that a job can ask for
};

std::string plan_page(const PageFacts&);

}  // namespace gpuyard::cli::slurm
