#include "cli/lease/foreground_job.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/screen/terminal.h"

namespace gpuyard::cli {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Returns our environment as "NAME=value", with `variables` replacing what was there.
std::vector<std::string> environment_with(const Job::Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::ranges::any_of(
        variables, [&](const auto& variable) { return text.starts_with(variable.first + "="); });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

struct Start {
  std::vector<char*> argv;
  std::vector<char*> envp;
  bool own_job;
  int hold;
  int let_go;  // the parent's end: the child closes its copy, to see that the parent ended
  int fate;
  const sigset_t* mask;
};

// Runs between fork and exec. It may not allocate or lock, for another thread may hold the lock.
[[noreturn]] void become(const Start& start) {
  if (start.own_job) ::setpgid(0, 0);
  ::close(start.let_go);
  char told = 0;
  ssize_t got = 0;
  do {
    got = ::read(start.hold, &told, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) ::_exit(0);  // the parent gave up, or has ended
  ::pthread_sigmask(SIG_SETMASK, start.mask, nullptr);
  ::execvpe(start.argv[0], start.argv.data(), start.envp.data());
  const int failed = errno;
  static_cast<void>(!::write(start.fate, &failed, sizeof(failed)));
  ::_exit(kNoSuchCommand);
}

// Fields 2 to 4 of /proc/PID/stat. The name stands in brackets and has any characters.
struct Stat {
  std::string name;
  char state = 0;
  pid_t parent = 0;
};

std::optional<Stat> stat_of(const std::string& directory) {
  constexpr std::size_t kMostBytes = 4096;
  const auto text = read_file(directory + "/stat", kMostBytes);
  if (!text) return std::nullopt;
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == text->npos || close == text->npos || close + 4 >= text->size()) return std::nullopt;
  Stat stat{text->substr(open + 1, close - open - 1), (*text)[close + 2]};
  std::from_chars(text->data() + close + 4, text->data() + text->size(), stat.parent);
  return stat;
}

}  // namespace

Result<Job> Job::start_held(const std::vector<std::string>& words, const Variables& variables,
                            const JobSignals& signals) {
  auto hold = make_pipe();
  if (!hold) return std::move(hold).error();
  auto fate = make_pipe();
  if (!fate) return std::move(fate).error();
  const JobTerminal terminal;
  const std::vector<std::string> environment = environment_with(variables);
  const bool own_job = terminal.allows_own_job();
  const Start start{pointers_to(words), pointers_to(environment), own_job,
                    hold->read.get(),   hold->write.get(),        fate->write.get(),
                    &signals.before()};
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("starting a process");
  if (pid == 0) become(start);
  if (own_job) ::setpgid(pid, pid);  // parent and child both set it: either may be first
  return Job(pid, own_job, words[0], std::move(hold->write), std::move(fate->read));
}

std::optional<int> Job::let_go() {
  if (own_job_ && terminal_.is_ours_alone()) terminal_.give_to(pid_);
  static_cast<void>(!::write(hold_.get(), "!", 1));
  hold_.reset();
  int failed = 0;
  ssize_t got = 0;
  do {
    got = ::read(fate_.get(), &failed, sizeof(failed));  // no byte: the exec succeeded
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(failed)) return std::nullopt;
  give_up();
  return cannot_run(command_, failed);
}

void Job::give_up() {
  hold_.reset();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  terminal_.take_back_from(pid_);
}

void Job::pass_on(const JobSignal& signal) {
  // A job that shares our group got the signal from the terminal itself.
  if (signal.from_terminal && !own_job_) return;
  if (signal.number == SIGINT && !signal.from_terminal) told_to_end_ = true;
  ::kill(signal.from_terminal ? -pid_ : pid_, signal.number);
}

std::optional<JobEnd> Job::look() {
  std::optional<JobEnd> end;
  for (;;) {
    int status = 0;
    const pid_t who = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (who <= 0) return end;
    if (who != pid_) continue;  // a process that it left behind
    if (WIFSTOPPED(status)) {
      stopped(WSTOPSIG(status));
    } else {
      end = ended(status);
    }
  }
}

void Job::stopped(int by) const {
  if (!terminal_.exists()) return;  // the sender of the stop will continue it
  const bool wants_terminal = by == SIGTTIN || by == SIGTTOU;
  // It began in the background, and is in the foreground now.
  if (wants_terminal && own_job_ && terminal_.is_ours_alone()) return continue_it();
  terminal_.take_back_from(pid_);
  stop_as_terminal_does(own_job_);
  continue_it();
}

void Job::continue_it() const {
  if (own_job_ && terminal_.is_ours_alone()) terminal_.give_to(pid_);
  ::kill(own_job_ ? -pid_ : pid_, SIGCONT);
}

JobEnd Job::ended(int status) const {
  terminal_.take_back_from(pid_);
  if (!WIFSIGNALED(status)) return {WEXITSTATUS(status)};
  const int number = WTERMSIG(status);
  return {kSignalled + number, number == SIGINT && !told_to_end_ && terminal_.is_ours()};
}

std::vector<OrphanProcess> left_behind() {
  std::vector<OrphanProcess> left;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const auto pid = number_in<pid_t>(name);
    if (!pid) continue;
    const auto stat = stat_of(entry->path());
    if (stat && stat->parent == ::getpid() && stat->state != 'Z') {
      left.push_back({*pid, stat->name});
    }
  }
  std::ranges::sort(left, {}, &OrphanProcess::pid);
  return left;
}

namespace {

constexpr std::array kPassedOn = {SIGINT,  SIGQUIT, SIGTERM,  SIGHUP,
                                  SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

bool is_ignored(int number) {
  struct sigaction now{};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Sends the signal to ourselves with its default action.
void suffer(int number, bool whole_job) {
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
  ::sigemptyset(&ends_);
  for (const int number : kPassedOn) {
    if (is_ignored(number)) continue;
    ::sigaddset(&set, number);
    if (asks_to_end(number)) ::sigaddset(&ends_, number);
  }
  sigset_t blocked = set;
  // A job in the background may give the terminal away only with SIGTTOU blocked.
  ::sigaddset(&blocked, SIGTTOU);
  ::sigaddset(&blocked, SIGPIPE);  // a closed stderr is no reason to end
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
  std::_Exit(kSignalled + SIGINT);  // reached only under a tracer
}

namespace {

// Whether the shell began a job with us, alone or as the first of a pipeline. Else another process
// of the job waits for us, and may use the terminal meanwhile.
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

// The terminal stops, continues and interrupts a shell's job as a whole. Without a terminal nobody
// does that.
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
