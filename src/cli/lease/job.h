// A command that runs as if it had been started without us, as a job of its own that has our
// terminal: it is stopped and continued with us, and gets the signals that are sent to us. What it
// leaves behind becomes ours, so that we can tell.
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

// Signals that are meant for a command that we run, as something to read; and stopping and ending
// as the terminal wants it.

struct JobSignal {
  int number = 0;
  bool from_terminal = false;  // the kernel sent it, to all of a job
};

class JobSignals {
 public:
  // From here on signals wait to be taken. Before anything that starts threads: they inherit that.
  // What was ignored before stays so: `nohup` and a shell's `&` mean it.
  JobSignals();
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  // Readable while there is one.
  int descriptor() const { return fd_.get(); }
  std::optional<JobSignal> take() const;
  // The first that asks to end, within that time; the others stay to be taken.
  std::optional<JobSignal> take_end(Duration at_most) const;
  // What a command is to be started with.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
  sigset_t ends_{};
  UniqueFd fd_;
};

// Whether it asks a program to end.
bool asks_to_end(int number);

// Stops as Ctrl-Z does, this process or all of its job; returns when it is continued. A job that
// nobody could continue, with no shell above it, is not stopped.
void stop_as_terminal_does(bool whole_job);

// Ends as Ctrl-C does, so that a shell knows that its loop is meant, too.
[[noreturn]] void end_as_interrupted(bool whole_job);

// The terminal that controls us, and which of its jobs has it.

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
