// Our controlling terminal, and which job has it.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.h"

namespace gpuyard::cli {

class JobTerminal {
 public:
  // Without a terminal every function here does nothing.
  JobTerminal();

  bool exists() const { return static_cast<bool>(fd_); }
  // Whether our job gets what the user types.
  bool is_foreground() const;
  // Whether it is ours, and no other process of a pipeline, a script or a make needs it.
  bool is_exclusive() const;
  // Whether a command of ours may be a job of its own.
  bool can_start_own_job() const;
  // Gives the terminal to `job`. The caller has SIGTTOU blocked.
  void give_to(pid_t job) const;
  // Takes it back from `job`, or from a process group that got it from `job` and is gone.
  void reclaim_from(pid_t job) const;

 private:
  UniqueFd fd_;
};

}  // namespace gpuyard::cli
