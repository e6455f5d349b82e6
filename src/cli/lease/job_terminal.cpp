#include "cli/lease/job_terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace gpuyard::cli {
namespace {

// Whether the shell began a job with us, alone or as the first of a pipeline. Else another process
// of the job waits for us, and may use the terminal meanwhile.
bool is_group_leader() {
  return ::getpid() == ::getpgrp();
}

}  // namespace

JobTerminal::JobTerminal() : fd_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {}

bool JobTerminal::is_foreground() const {
  return fd_ && ::tcgetpgrp(fd_.get()) == ::getpgrp();
}

bool JobTerminal::is_exclusive() const {
  return is_group_leader() && is_foreground() && ::isatty(STDIN_FILENO) == 1 &&
         ::isatty(STDOUT_FILENO) == 1;
}

// The terminal stops, continues and interrupts a shell's job as a whole. Without a terminal nobody
// does that.
bool JobTerminal::can_start_own_job() const {
  if (!exists()) return true;
  return is_group_leader() && (!is_foreground() || is_exclusive());
}

void JobTerminal::give_to(pid_t job) const {
  if (fd_) static_cast<void>(::tcsetpgrp(fd_.get(), job));
}

void JobTerminal::reclaim_from(pid_t job) const {
  const pid_t foreground_group = fd_ ? ::tcgetpgrp(fd_.get()) : -1;
  if (foreground_group <= 0) return;
  const bool orphaned = ::kill(-foreground_group, 0) != 0 && errno == ESRCH;
  if (foreground_group == job || orphaned) give_to(::getpgrp());
}

}  // namespace gpuyard::cli
