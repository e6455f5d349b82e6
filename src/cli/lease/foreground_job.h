// Runs a command as if the shell had started it: as a job of its own that has our terminal, is
// stopped and continued with us, and gets the signals that are sent to us. Processes that it leaves
// behind become our children, so that we can report them.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace gpuyard::cli {

// Signals meant for a command that we run, read from a descriptor; and how to stop and end as the
// terminal wants it.

struct JobSignal {
  int number = 0;
  bool from_terminal = false;  // the kernel sent it, to a whole job
};

class JobSignals {
 public:
  // Blocks signals, which then wait for take(). Construct it before any thread: threads inherit
  // this. Ignored signals stay ignored: `nohup` and a shell's `&` mean it.
  JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  // Readable while a signal waits.
  int descriptor() const { return fd_.get(); }
  std::optional<JobSignal> take() const;
  // Waits this long for the first signal that asks to end; other signals stay to be taken.
  std::optional<JobSignal> take_end(Duration at_most) const;
  // The signal mask that a command starts with.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  sigset_t ends_{};
  UniqueFd fd_;
};

// Whether the signal asks a program to end.
bool asks_to_end(int number);

// Stops this process, or all of its job, as Ctrl-Z does; returns when it is continued. A job
// without a shell above it is not stopped, because nobody could continue it.
void stop_as_terminal_does(bool whole_job);

// Ends as Ctrl-C does, so that a shell ends its loop, too.
[[noreturn]] void end_as_interrupted(bool whole_job);

// Our controlling terminal, and which job has it.

class JobTerminal {
 public:
  // Without a terminal every function here does nothing.
  JobTerminal();

  bool exists() const { return static_cast<bool>(fd_); }
  // Whether our job gets what the user types.
  bool is_ours() const;
  // Whether it is ours, and no other process of a pipeline, a script or a make needs it.
  bool is_ours_alone() const;
  // Whether a command of ours may be a job of its own.
  bool allows_own_job() const;
  // Gives the terminal to `job`. The caller has SIGTTOU blocked.
  void give_to(pid_t job) const;
  // Takes it back from `job`, or from a process group that got it from `job` and is gone.
  void take_back_from(pid_t job) const;

 private:
  UniqueFd fd_;
};

struct JobEnd {
  int exit_code = 0;         // as a shell says it: 128 + N after signal N
  bool interrupted = false;  // by a Ctrl-C that may be meant for others, too
};

struct OrphanProcess {
  pid_t pid = 0;
  std::string name;
};

class Job {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Starts the command, but no instruction of it runs before let_go(). If we end before that, it
  // never runs. `variables` are set in its environment.
  static Result<Job> start_held(const std::vector<std::string>& words, const Variables& variables,
                                const JobSignals&);
  Job(Job&&) noexcept = default;
  Job& operator=(Job&&) = delete;
  ~Job() = default;

  pid_t pid() const { return pid_; }
  // Lets it run. 127: there is no such command; 126: it cannot be run; both after a complaint.
  std::optional<int> let_go();
  // Ends the process without running the command.
  void give_up();
  void pass_on(const JobSignal&);
  // Whether it is a job of its own; else it is in our job, like others of a pipeline.
  bool is_apart() const { return own_job_; }
  // Returns the command's end; call it after each SIGCHLD. Stops us when the command is stopped.
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
  bool told_to_end_ = false;  // by a SIGINT that did not come from the terminal
  std::string command_;
  UniqueFd hold_;  // a byte in it starts the command; closing it ends the process
  UniqueFd fate_;  // gives the errno of an exec that failed
  JobTerminal terminal_;
};

// Returns the running processes that the job left behind.
std::vector<OrphanProcess> left_behind();

}  // namespace gpuyard::cli
