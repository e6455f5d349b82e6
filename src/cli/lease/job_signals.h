// Signals that are meant for a command that we run, as something to read; and stopping and ending
// as the terminal wants it.
#pragma once

#include <signal.h>

#include <optional>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gpuyard::cli {

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

}  // namespace gpuyard::cli
