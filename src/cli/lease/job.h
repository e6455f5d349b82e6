// A command that runs as if it had been started without us, as a job of its own that has our
// terminal: it is stopped and continued with us, and gets the signals that are sent to us. What it
// leaves behind becomes ours, so that we can tell.
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
  int exit_code = 0;         // as a shell says it: 128 and the number for one that a signal ended
  bool interrupted = false;  // by a Ctrl-C that others may have meant for them, too
};

struct LeftBehind {
  pid_t pid = 0;
  std::string name;
};

class Job {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Started, but no instruction of it runs before let_go(). If we end before, it never does.
  // `variables` are set in its environment.
  static Result<Job> start_held(const std::vector<std::string>& words, const Variables& variables,
                                const JobSignals&);
  Job(Job&&) noexcept = default;
  Job& operator=(Job&&) = delete;
  ~Job() = default;

  pid_t pid() const { return pid_; }
  // 127: there is no such command; 126: it cannot be run; both are complained about.
  std::optional<int> let_go();
  // It is never to run.
  void give_up();
  void pass_on(const JobSignal&);
  // Whether it is a job of its own; else it is in ours, like others of a pipeline.
  bool is_apart() const { return own_job_; }
  // To be asked after each SIGCHLD: its end. Stops us as it is stopped.
  std::optional<JobEnd> look();

 private:
  Job(pid_t pid, bool own_job, std::string command, UniqueFd hold, UniqueFd fate)
      : pid_(pid),
        own_job_(own_job),
        command_(std::move(command)),
        hold_(std::move(hold)),
        fate_(std::move(fate)) {}

  void stopped(int by) const;
  void continue_it() const;
  JobEnd ended(int status) const;

  pid_t pid_;
  bool own_job_;
  bool told_to_end_ = false;  // by somebody who meant it alone
  std::string command_;
  UniqueFd hold_;  // closed or written to: it may go
  UniqueFd fate_;  // what errno was when it could not
  JobTerminal terminal_;
};

// Processes that the job has left and that run.
std::vector<LeftBehind> left_behind();

}  // namespace gpuyard::cli
