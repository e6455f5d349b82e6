#include "cli/lease/foreground_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/lease/job_signals.h"
#include "cli/lease/job_terminal.h"
#include "cli/screen/output.h"

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
std::vector<std::string> environment_with(const ForegroundJob::Variables& variables) {
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

struct ChildStart {
  std::vector<char*> argv;
  std::vector<char*> envp;
  bool own_job;
  int start_fd;
  int parent_start_fd;  // the parent's end: the child closes its copy, to see that the parent ended
  int exec_status_fd;
  const sigset_t* mask;
  int errors_fd;  // -1: our stderr
  int death_signal;
};

// Runs between fork and exec. It may not allocate or lock, for another thread may hold the lock.
[[noreturn]] void become(const ChildStart& start) {
  if (start.own_job) ::setpgid(0, 0);
  ::close(start.parent_start_fd);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(start.start_fd, &byte, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) ::_exit(0);  // the parent gave up, or has ended
  if (start.errors_fd >= 0) ::dup2(start.errors_fd, STDERR_FILENO);
  if (start.death_signal != 0) ::prctl(PR_SET_PDEATHSIG, start.death_signal);
  ::pthread_sigmask(SIG_SETMASK, start.mask, nullptr);
  ::execvpe(start.argv[0], start.argv.data(), start.envp.data());
  const int failed = errno;
  static_cast<void>(!::write(start.exec_status_fd, &failed, sizeof(failed)));
  ::_exit(kExitCommandNotFound);
}

// Fields 2 to 4 of /proc/PID/stat. The name stands in brackets and has any characters.
struct Stat {
  std::string name;
  char state = 0;
  pid_t parent = 0;
};

std::optional<Stat> stat_of(const std::string& directory) {
  constexpr std::size_t kMaxStatBytes = 4096;
  const auto text = read_file(directory + "/stat", kMaxStatBytes);
  if (!text) return std::nullopt;
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == text->npos || close == text->npos || close + 4 >= text->size()) return std::nullopt;
  Stat stat{text->substr(open + 1, close - open - 1), (*text)[close + 2]};
  std::from_chars(text->data() + close + 4, text->data() + text->size(), stat.parent);
  return stat;
}

}  // namespace

Result<ForegroundJob> ForegroundJob::start_held(const std::vector<std::string>& words,
                                                const Variables& variables,
                                                const JobSignals& signals,
                                                const StartRules& rules) {
  auto start_pipe = GPUYARD_TRY(make_pipe());
  auto status_pipe = GPUYARD_TRY(make_pipe());
  const JobTerminal terminal;
  const std::vector<std::string> environment = environment_with(variables);
  const bool own_job = rules.own_group && terminal.can_start_own_job();
  const ChildStart start{
      pointers_to(words),       pointers_to(environment),  own_job,
      start_pipe.read.get(),    start_pipe.write.get(),    status_pipe.write.get(),
      &signals.original_mask(), rules.errors.value_or(-1), rules.death_signal};
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("starting a process");
  if (pid == 0) become(start);
  if (own_job) ::setpgid(pid, pid);  // parent and child both set it: either may be first
  return ForegroundJob(pid, own_job, words[0], std::move(start_pipe.write),
                       std::move(status_pipe.read));
}

std::optional<int> ForegroundJob::resume() {
  if (has_own_group_ && terminal_.is_exclusive()) terminal_.give_to(pid_);
  static_cast<void>(!::write(start_pipe_.get(), "!", 1));
  start_pipe_.reset();
  int failed = 0;
  ssize_t got = 0;
  do {
    got = ::read(exec_status_.get(), &failed, sizeof(failed));  // no byte: the exec succeeded
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(failed)) return std::nullopt;
  abandon();
  return print_exec_error(command_, failed);
}

void ForegroundJob::abandon() {
  start_pipe_.reset();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  terminal_.reclaim_from(pid_);
}

void ForegroundJob::forward(const JobSignal& signal) {
  // A job that shares our group got the signal from the terminal itself.
  if (signal.from_terminal && !has_own_group_) return;
  if (signal.number == SIGINT && !signal.from_terminal) interrupt_forwarded_ = true;
  ::kill(signal.from_terminal ? -pid_ : pid_, signal.number);
}

std::optional<JobEnd> ForegroundJob::reap() {
  std::optional<JobEnd> end;
  for (;;) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (child <= 0) return end;
    if (child != pid_) continue;  // a process that it left behind
    if (WIFSTOPPED(status)) {
      on_stopped(WSTOPSIG(status));
    } else {
      end = on_ended(status);
    }
  }
}

void ForegroundJob::on_stopped(int by) const {
  if (!terminal_.exists()) return;  // the sender of the stop will continue it
  const bool wants_terminal = by == SIGTTIN || by == SIGTTOU;
  // It began in the background, and is in the foreground now.
  if (wants_terminal && has_own_group_ && terminal_.is_exclusive()) return send_continue();
  terminal_.reclaim_from(pid_);
  suspend_job(has_own_group_);
  send_continue();
}

void ForegroundJob::send_continue() const {
  if (has_own_group_ && terminal_.is_exclusive()) terminal_.give_to(pid_);
  ::kill(has_own_group_ ? -pid_ : pid_, SIGCONT);
}

JobEnd ForegroundJob::on_ended(int status) const {
  terminal_.reclaim_from(pid_);
  if (!WIFSIGNALED(status)) return {WEXITSTATUS(status)};
  const int number = WTERMSIG(status);
  return {kExitSignalBase + number,
          number == SIGINT && !interrupt_forwarded_ && terminal_.is_foreground()};
}

std::vector<OrphanProcess> find_orphans() {
  std::vector<OrphanProcess> orphans;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const auto pid = parse_number<pid_t>(name);
    if (!pid) continue;
    const auto stat = stat_of(entry->path());
    if (stat && stat->parent == ::getpid() && stat->state != 'Z') {
      orphans.push_back({*pid, stat->name});
    }
  }
  std::ranges::sort(orphans, {}, &OrphanProcess::pid);
  return orphans;
}

}  // namespace gpuyard::cli
