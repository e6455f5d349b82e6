#include "cli/lease/job_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "cli/exit_codes.h"

namespace gpuyard::cli {
namespace {

constexpr std::array kPassedOn = {SIGINT,  SIGQUIT, SIGTERM,  SIGHUP,
                                  SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

bool is_ignored(int number) {
  struct sigaction now{};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t only(int number) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, number);
  return set;
}

// To ourselves, with what it does to who has not said otherwise.
void suffer(int number, bool whole_job) {
  const sigset_t set = only(number);
  ::signal(number, SIG_DFL);
  ::kill(whole_job ? 0 : ::getpid(), number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);  // here it comes
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

JobSignals::JobSignals() {
  // Inherited as "ignored", it would take the command's end from us.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t set = only(SIGCHLD);
  ::sigemptyset(&ends_);
  for (const int number : kPassedOn) {
    if (is_ignored(number)) continue;
    ::sigaddset(&set, number);
    if (asks_to_end(number)) ::sigaddset(&ends_, number);
  }
  sigset_t blocked = set;
  // The terminal may be given to another job by one that does not have it only with this one
  // blocked.
  ::sigaddset(&blocked, SIGTTOU);
  ::sigaddset(&blocked, SIGPIPE);  // nobody reads our remarks: no reason to end
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  fd_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<JobSignal> JobSignals::take() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return JobSignal{static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

std::optional<JobSignal> JobSignals::take_end(Duration at_most) const {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec limit{seconds.count(), (at_most - seconds).count()};
  siginfo_t told{};
  const int number = ::sigtimedwait(&ends_, &told, &limit);
  if (number < 0) return std::nullopt;
  return JobSignal{number, told.si_code == SI_KERNEL};
}

bool asks_to_end(int number) {
  return number == SIGINT || number == SIGQUIT || number == SIGTERM || number == SIGHUP;
}

void stop_as_terminal_does(bool whole_job) {
  suffer(SIGTSTP, whole_job);
}

void end_as_interrupted(bool whole_job) {
  suffer(SIGINT, whole_job);
  std::_Exit(kSignalled + SIGINT);  // somebody traces us
}

}  // namespace gpuyard::cli
