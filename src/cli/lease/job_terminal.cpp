#include "cli/lease/job_terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace gpuyard::cli {
namespace {

// Whether the shell began a job with us: the first of a pipeline, or alone. Else somebody else of
// it waits for us, and may use the terminal meanwhile.
bool we_lead() {
  return ::getpid() == ::getpgrp();
}

}  // namespace

JobTerminal::JobTerminal() : fd_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {}

bool JobTerminal::is_ours() const {
  return fd_ && ::tcgetpgrp(fd_.get()) == ::getpgrp();
}

bool JobTerminal::is_ours_alone() const {
  return we_lead() && is_ours() && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

// A job is the whole of what the shell was told, and is stopped, continued and interrupted as one.
// Without a terminal nobody does that.
bool JobTerminal::allows_own_job() const {
  if (!exists()) return true;
  return we_lead() && (!is_ours() || is_ours_alone());
}

void JobTerminal::give_to(pid_t job) const {
  if (fd_) static_cast<void>(::tcsetpgrp(fd_.get(), job));
}

void JobTerminal::take_back_from(pid_t job) const {
  const pid_t has = fd_ ? ::tcgetpgrp(fd_.get()) : -1;
  if (has <= 0) return;
  const bool nobodys = ::kill(-has, 0) != 0 && errno == ESRCH;
  if (has == job || nobodys) give_to(::getpgrp());
}

}  // namespace gpuyard::cli
