#include "base/command_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/spawn.h"
#include "base/unique_fd.h"

namespace gpuyard {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::size_t kFlood = std::size_t{16} << 10;  // in one read: it can wait
constexpr Duration kPauseOfFlood = std::chrono::milliseconds(10);
constexpr Duration kKillPatience = std::chrono::seconds(1);
constexpr int kReadsAtTheEnd = 16;  // of what a pipe can hold

// The last bytes of a text without end.
class Tail {
 public:
  void add(std::string_view bytes) {
    text_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kCommandOutputKept)));
    cut_ = cut_ || bytes.size() > kCommandOutputKept || text_.size() > kCommandOutputKept;
    if (text_.size() > kCommandOutputKept) text_.erase(0, text_.size() - kCommandOutputKept);
  }
  void move_to(CommandOutcome& outcome) {
    outcome.output = std::move(text_);
    outcome.output_cut = cut_;
  }

 private:
  std::string text_;
  bool cut_ = false;
};

// By system call: glibc has the wrapper from 2.36 only.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

SpawnPlan spawn_plan(const CommandPlan& plan, int output) {
  return {.program = plan.argv.front(),
          .arguments = {plan.argv.begin() + 1, plan.argv.end()},
          .looks_in_path = true,
          .environment = plan.environment,
          .output = output,
          .own_session = true};
}

}  // namespace

// Lives as long as its CommandRun, or until its process is reaped.
class CommandRun::Process : public std::enable_shared_from_this<Process> {
 public:
  Process(Loop& loop, Ended ended) : loop_(loop), ended_(std::move(ended)), began_(loop.now()) {}

  void start(const CommandPlan& plan) {
    if (auto started = try_start(plan); !started) {
      timer_ = loop_.call_after(Duration::zero(), [this, why = started.error().message] {
        end({.end = CommandOutcome::End::not_started, .why = why});
      });
    }
  }

  void abandon() {
    ended_ = nullptr;
    leave_behind();
    if (pidfd_) ::kill(-pid_, SIGKILL);
  }

 private:
  Result<void> try_start(const CommandPlan& plan);
  void read_some();
  std::size_t read_once();
  void on_deadline(Duration grace);
  void on_kill();
  void on_exit();
  void end(CommandOutcome outcome);
  void leave_behind();

  Loop& loop_;
  Ended ended_;
  TimePoint began_;
  pid_t pid_ = 0;
  UniqueFd pidfd_;  // empty: nothing runs, or not any more
  UniqueFd output_;
  Tail tail_;
  bool timed_out_ = false;
  Subscription readable_;
  Subscription exited_;
  Subscription timer_;
  Subscription pause_;
};

Result<void> CommandRun::Process::try_start(const CommandPlan& plan) {
  if (plan.argv.empty()) return Error{Errc::invalid, "there is no command"};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  output_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);  // of our end alone
  const auto child = spawn(spawn_plan(plan, theirs.get()));
  if (!child) return child.error();
  pid_ = *child;
  pidfd_ = open_pidfd(pid_);
  if (!pidfd_) {
    auto error = system_error("watching " + plan.argv.front());
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    return error;
  }
  exited_ = loop_.watch(pidfd_.get(), [this] { on_exit(); });
  readable_ = loop_.watch(output_.get(), [this] { read_some(); });
  timer_ = loop_.call_after(plan.deadline, [this, grace = plan.grace] { on_deadline(grace); });
  return {};
}

// 0: there is nothing more, or not now.
std::size_t CommandRun::Process::read_once() {
  std::array<char, kReadAtOnce> bytes;
  const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
  if (got == 0) readable_.reset();  // closed by all who had it, which is no end of the process
  if (got <= 0) return 0;
  tail_.add({bytes.data(), static_cast<std::size_t>(got)});
  return static_cast<std::size_t>(got);
}

void CommandRun::Process::read_some() {
  if (read_once() < kFlood) return;
  readable_.reset();
  pause_ = loop_.call_after(
      kPauseOfFlood, [this] { readable_ = loop_.watch(output_.get(), [this] { read_some(); }); });
}

void CommandRun::Process::on_deadline(Duration grace) {
  timed_out_ = true;
  ::kill(-pid_, SIGTERM);
  timer_ = loop_.call_after(grace, [this] { on_kill(); });
}

void CommandRun::Process::on_kill() {
  ::kill(-pid_, SIGKILL);
  timer_ = loop_.call_after(kKillPatience, [this] {
    leave_behind();
    end({.end = CommandOutcome::End::timed_out, .why = "it does not end, even killed"});
  });
}

void CommandRun::Process::on_exit() {
  const auto self = shared_from_this();
  exited_.reset();
  // Its group first: until it is reaped, its number is nobody else's.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, WNOHANG);
  pidfd_.reset();
  for (int i = 0; i < kReadsAtTheEnd && output_ && read_once() > 0; ++i) {
  }
  using End = CommandOutcome::End;
  if (timed_out_) return end({.end = End::timed_out});
  if (WIFSIGNALED(status)) return end({.end = End::signalled, .number = WTERMSIG(status)});
  end({.end = End::exited, .number = WEXITSTATUS(status)});
}

void CommandRun::Process::end(CommandOutcome outcome) {
  const auto self = shared_from_this();  // the one who hears of it may destroy the run
  timer_.reset();
  readable_.reset();
  pause_.reset();
  outcome.took = loop_.now() - began_;
  tail_.move_to(outcome);
  if (const auto ended = std::exchange(ended_, nullptr)) ended(outcome);
}

// From now on the loop alone holds it, until its process can be reaped.
void CommandRun::Process::leave_behind() {
  timer_.reset();
  readable_.reset();
  pause_.reset();
  output_.reset();
  exited_.reset();
  if (!pidfd_) return;
  exited_ = loop_.watch(pidfd_.get(), [self = shared_from_this()] { self->on_exit(); });
}

CommandRun::CommandRun(Loop& loop, const CommandPlan& plan, Ended ended)
    : process_(std::make_shared<Process>(loop, std::move(ended))) {
  process_->start(plan);
}

CommandRun::~CommandRun() {
  if (process_) process_->abandon();
}

std::string CommandOutcome::text() const {
  const double seconds = std::chrono::duration<double>(took).count();
  switch (end) {
    case End::exited:
      return fmt::format("exited with status {}", number);
    case End::signalled:
      return fmt::format("was ended by signal {}", number);
    case End::timed_out:
      return fmt::format("was ended after {:.1f} s{}{}", seconds, why.empty() ? "" : ": ", why);
    case End::not_started:
      break;
  }
  return "could not be started: " + why;
}

}  // namespace gpuyard
