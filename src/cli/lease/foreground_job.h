// Runs a command as if the shell had started it: as a job of its own that has our terminal, is
// stopped and continued with us, and gets the signals that are sent to us. Processes that it leaves
// behind become our children, so that we can report them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/lease/job_signals.h"
#include "cli/lease/job_terminal.h"

namespace gpuyard::cli {

struct JobEnd {
  int exit_code = 0;         // as a shell says it: 128 + N after signal N
  bool interrupted = false;  // by a Ctrl-C that may be meant for others, too
};

struct OrphanProcess {
  pid_t pid = 0;
  std::string name;
};

class ForegroundJob {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  // How a command is started that is a part of ours, as srun is.
  struct StartRules {
    bool own_group = true;           // false: it stays in our group, and the terminal signals both
    std::optional<int> errors = {};  // our descriptor for its stderr
    int death_signal = 0;            // sent to it when we end; 0: none
  };

  // Starts the command, but no instruction of it runs before resume(). If we end before that, it
  // never runs. `variables` are set in its environment.
  static Result<ForegroundJob> start_held(const std::vector<std::string>& words,
                                          const Variables& variables, const JobSignals&,
                                          const StartRules& rules);
  static Result<ForegroundJob> start_held(const std::vector<std::string>& words,
                                          const Variables& variables, const JobSignals& signals) {
    return start_held(words, variables, signals, StartRules());
  }
  ForegroundJob(ForegroundJob&&) noexcept = default;
  ForegroundJob& operator=(ForegroundJob&&) = delete;
  ~ForegroundJob() = default;

  pid_t pid() const { return pid_; }
  // Lets it run. 127: there is no such command; 126: it cannot be run; both after printing an
  // error.
  std::optional<int> resume();
  // Ends the process without running the command.
  void abandon();
  void forward(const JobSignal&);
  // Whether it is a job of its own; else it is in our job, like others of a pipeline.
  bool has_own_group() const { return has_own_group_; }
  // Returns the command's end; call it after each SIGCHLD. Stops us when the command is stopped.
  std::optional<JobEnd> reap();

 private:
  ForegroundJob(pid_t pid, bool own_job, std::string command, UniqueFd start_pipe,
                UniqueFd exec_status)
      : pid_(pid),
        has_own_group_(own_job),
        command_(std::move(command)),
        start_pipe_(std::move(start_pipe)),
        exec_status_(std::move(exec_status)) {}

  void on_stopped(int by) const;
  void send_continue() const;
  JobEnd on_ended(int status) const;

  pid_t pid_;
  bool has_own_group_;
  bool interrupt_forwarded_ = false;  // by a SIGINT that did not come from the terminal
  std::string command_;
  UniqueFd start_pipe_;   // a byte in it starts the command; closing it ends the process
  UniqueFd exec_status_;  // gives the errno of an exec that failed
  JobTerminal terminal_;
};

// Returns the running processes that the job left behind.
std::vector<OrphanProcess> find_orphans();

}  // namespace gpuyard::cli
