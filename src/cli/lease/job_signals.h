// Signals meant for a command that we run, read from a descriptor; and how to stop and end as the
// terminal wants it.
#pragma once

#include <signal.h>

#include <optional>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace gpuyard::cli {

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
  std::optional<JobSignal> take_termination(Duration at_most) const;
  // The signal mask that a command starts with.
  const sigset_t& original_mask() const { return original_mask_; }

 private:
  sigset_t original_mask_{};
  sigset_t termination_set_{};
  UniqueFd fd_;
};

// Whether the signal asks a program to end.
bool is_termination_signal(int number);

// Stops this process, or all of its job, as Ctrl-Z does; returns when it is continued. A job
// without a shell above it is not stopped, because nobody could continue it.
void suspend_job(bool whole_job);

// Ends as Ctrl-C does, so that a shell ends its loop, too.
[[noreturn]] void exit_by_sigint(bool whole_job);

}  // namespace gpuyard::cli
