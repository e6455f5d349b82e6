// The terminal that controls us, and which of its jobs has it.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.h"

namespace gpuyard::cli {

class JobTerminal {
 public:
  // Without a terminal everything here does nothing.
  JobTerminal();

  bool exists() const { return static_cast<bool>(fd_); }
  // Whether what the user types comes to our job.
  bool is_ours() const;
  // Whether it is ours alone: the others of a pipeline, of a script or of a make need it, too.
  bool is_ours_alone() const;
  // Whether a command of ours may be a job of its own.
  bool allows_own_job() const;
  // SIGTTOU is blocked meanwhile.
  void give_to(pid_t job) const;
  // From a job that has it, or has left it to a group of its own that is gone.
  void take_back_from(pid_t job) const;

 private:
  UniqueFd fd_;
};

}  // namespace gpuyard::cli
