// Plans a Slurm cluster from the inventories of its machines. Pure: inventories in, the texts of
// Slurm's files out, the same for every machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/slurm/planned_node.h"

namespace gpuyard::cli::slurm {

struct ClusterSpec {
  std::vector<PlannedHost> hosts;
  std::string controller;   // as the user named it, or its host name
  bool accounting = false;  // slurmdbd, and fair share
};

struct ClusterFile {
  std::string name;
  std::string text;
  unsigned mode = 0644;
  bool keep_existing = false;  // an existing file is the right one, whatever its text
};

struct ClusterPlan {
  std::vector<Error> problems;     // why there are no files
  std::vector<ClusterFile> files;  // without munge.key
  std::vector<std::string> notes;  // for people: what is left out or not known
};

ClusterPlan plan_cluster(const ClusterSpec&);

// The cluster's name in slurm.conf and in its accounting.
inline constexpr const char* kClusterName = "cluster";
// The ports of Slurm's programs, and those that srun listens on.
inline constexpr int kSlurmctldPort = 6817;
inline constexpr int kSlurmdPort = 6818;
inline constexpr int kSlurmdbdPort = 6819;
inline constexpr const char* kSrunPorts = "60001-63000";
// The version whose programs the tests run with these files.
inline constexpr const char* kTestedSlurm = "22.05";

}  // namespace gpuyard::cli::slurm
