#include "cli/lease/job_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "cli/screen/output.h"

namespace gpuyard::cli {
namespace {

constexpr std::array kForwardedSignals = {SIGINT,  SIGQUIT, SIGTERM,  SIGHUP,
                                          SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

bool is_ignored(int number) {
  struct sigaction now{};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Sends the signal to ourselves with its default action.
void reraise(int number, bool whole_job) {
  const sigset_t set = signal_set({number});
  ::signal(number, SIG_DFL);
  ::kill(whole_job ? 0 : ::getpid(), number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // it is delivered here
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

JobSignals::JobSignals() {
  // Inherited as "ignored", SIGCHLD would hide the command's end from us.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t set = signal_set({SIGCHLD});
  ::sigemptyset(&termination_set_);
  for (const int number : kForwardedSignals) {
    if (is_ignored(number)) continue;
    ::sigaddset(&set, number);
    if (is_termination_signal(number)) ::sigaddset(&termination_set_, number);
  }
  sigset_t blocked = set;
  // A job in the background may give the terminal away only with SIGTTOU blocked.
  ::sigaddset(&blocked, SIGTTOU);
  ::sigaddset(&blocked, SIGPIPE);  // a closed stderr is no reason to end
  ::pthread_sigmask(SIG_BLOCK, &blocked, &original_mask_);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<JobSignal> JobSignals::take() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return JobSignal{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

std::optional<JobSignal> JobSignals::take_termination(Duration at_most) const {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec limit{seconds.count(), (at_most - seconds).count()};
  siginfo_t info{};
  const int number = ::sigtimedwait(&termination_set_, &info, &limit);
  if (number < 0) return std::nullopt;
  return JobSignal{number, info.si_code == SI_KERNEL};
}

bool is_termination_signal(int number) {
  return number == SIGINT || number == SIGQUIT || number == SIGTERM || number == SIGHUP;
}

void suspend_job(bool whole_job) {
  reraise(SIGTSTP, whole_job);
}

void exit_by_sigint(bool whole_job) {
  reraise(SIGINT, whole_job);
  std::_Exit(kExitSignalBase + SIGINT);  // reached only under a tracer
}

}  // namespace gpuyard::cli
