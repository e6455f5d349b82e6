#include "base/command_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/command_host.h"
#include "base/files.h"
#include "base/spawn.h"
#include "base/unique_fd.h"
#include "base/worker.h"

namespace gpuyard {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::size_t kFlood = std::size_t{16} << 10;  // bytes in one read that start a pause
constexpr Duration kPauseOfFlood = std::chrono::milliseconds(10);
constexpr Duration kKillPatience = std::chrono::seconds(1);
constexpr int kReadsAtTheEnd = 16;  // enough for all that a pipe can hold

// Keeps the last bytes of a text without end.
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

// glibc has a wrapper for this system call only since 2.36.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

SpawnOptions spawn_plan(const CommandOptions& plan, int output) {
  return {.program = plan.argv.front(),
          .arguments = {plan.argv.begin() + 1, plan.argv.end()},
          .looks_in_path = true,
          .environment = plan.environment,
          .output = output,
          .own_session = true};
}

// Takes one of CommandRun::kMostStarting places while it lives.
class Place {
 public:
  Place() { ++taken_; }
  ~Place() { --taken_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  static bool none_left() { return taken_ >= CommandRun::kMostStarting; }

 private:
  static inline std::atomic<int> taken_ = 0;
};

// A command that is being started, shared by the thread that starts it and the loop that waits.
class Start {
 public:
  // Called by the thread. Returns false, and kills the child, if nobody waits any more.
  bool hand_over(const Result<pid_t>& child) {
    {
      const std::lock_guard lock(mutex_);
      child_ = child;
      if (!given_up_) return true;
    }
    if (child) {
      ::kill(-*child, SIGKILL);
      ::waitpid(*child, nullptr, 0);
    }
    return false;
  }
  // Returns the child, if it was already started.
  std::optional<pid_t> give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    return child_ && *child_ ? std::optional(**child_) : std::nullopt;
  }
  Result<pid_t> take() {
    const std::lock_guard lock(mutex_);
    return *child_;
  }

 private:
  std::mutex mutex_;
  std::optional<Result<pid_t>> child_;
  bool given_up_ = false;
};

}  // namespace

// Lives as long as its CommandRun, or until its process is reaped.
class CommandRun::Process : public std::enable_shared_from_this<Process> {
 public:
  Process(Loop& loop, Ended ended) : loop_(loop), ended_(std::move(ended)), began_(loop.now()) {}

  void start(const CommandOptions& plan) {
    if (auto started = try_start(plan); !started) {
      timer_ = loop_.call_after(Duration::zero(), [this, why = started.error().text()] {
        end({.end = CommandOutcome::End::not_started, .why = why});
      });
    }
  }

  void abandon() {
    ended_ = nullptr;
    give_up_starting();
    leave_behind();
    if (pidfd_) ::kill(-pid_, SIGKILL);
  }

 private:
  Result<void> try_start(const CommandOptions& plan);
  void on_started(Duration deadline, Duration grace);
  void on_never_started();
  void give_up_starting();
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
  std::optional<ThreadWorker> starter_;
  std::shared_ptr<Start> start_;  // set while the command is being started
  pid_t pid_ = 0;
  UniqueFd pidfd_;  // empty: nothing runs
  UniqueFd output_;
  Tail tail_;
  bool timed_out_ = false;
  Subscription readable_;
  Subscription exited_;
  Subscription timer_;
  Subscription pause_;
};

Result<void> CommandRun::Process::try_start(const CommandOptions& plan) {
  if (plan.argv.empty()) return Error{Errc::invalid, "no command given"};
  if (Place::none_left()) {
    return Error{
        Errc::busy,
        fmt::format("{} commands are waiting to start; check that their file system is available",
                    kMostStarting)};
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  output_.reset(ends[0]);
  const auto theirs = std::make_shared<const UniqueFd>(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);  // our end only
  try {
    starter_.emplace(loop_, "command", Duration::zero());
  } catch (const std::system_error& error) {  // too many threads
    return Error{Errc::unavailable, error.what()};
  }
  start_ = std::make_shared<Start>();
  starter_->post([weak = weak_from_this(), start = start_, place = std::make_shared<Place>(),
                  theirs, plan]() -> Worker::Afterwards {
    if (!start->hand_over(spawn_free(spawn_plan(plan, theirs->get())))) return nullptr;
    return [weak, deadline = plan.deadline, grace = plan.grace] {
      if (const auto self = weak.lock()) self->on_started(deadline, grace);
    };
  });
  timer_ = loop_.call_after(plan.start_within, [this] { on_never_started(); });
  return {};
}

void CommandRun::Process::on_never_started() {
  give_up_starting();
  leave_behind();
  if (pidfd_) ::kill(-pid_, SIGKILL);
  end({.end = CommandOutcome::End::not_started,
       .why = "its file could not be read in time; check that its file system is available"});
}

// The thread kills a child that starts after this; the caller kills one that has started already.
void CommandRun::Process::give_up_starting() {
  const auto start = std::exchange(start_, nullptr);
  const auto child = start ? start->give_up() : std::nullopt;
  if (!child) return;
  pid_ = *child;
  pidfd_ = open_pidfd(pid_);
  if (pidfd_) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void CommandRun::Process::on_started(Duration deadline, Duration grace) {
  const auto start = std::exchange(start_, nullptr);
  if (!start) return;  // given up meanwhile
  starter_.reset();
  const auto child = start->take();
  if (!child) return end({.end = CommandOutcome::End::not_started, .why = child.error().text()});
  pid_ = *child;
  pidfd_ = open_pidfd(pid_);
  if (!pidfd_) {
    const auto why = system_error("watching the command").text();
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    return end({.end = CommandOutcome::End::not_started, .why = why});
  }
  exited_ = loop_.watch(pidfd_.get(), [this] { on_exit(); });
  readable_ = loop_.watch(output_.get(), [this] { read_some(); });
  timer_ = loop_.call_after(deadline, [this, grace] { on_deadline(grace); });
}

// Returns 0 if there is nothing more, or nothing now.
std::size_t CommandRun::Process::read_once() {
  std::array<char, kReadAtOnce> bytes;
  const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
  if (got == 0) readable_.reset();  // all writers closed it; the process may still run
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
    end({.end = CommandOutcome::End::timed_out, .why = "it does not end, even after SIGKILL"});
  });
}

void CommandRun::Process::on_exit() {
  const auto self = shared_from_this();
  exited_.reset();
  // Kills its group first: until the process is reaped, no other process can have its number.
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
  const auto self = shared_from_this();  // the callback may destroy the run
  timer_.reset();
  readable_.reset();
  pause_.reset();
  outcome.took = loop_.now() - began_;
  tail_.move_to(outcome);
  if (const auto ended = std::exchange(ended_, nullptr)) ended(outcome);
}

// Makes the loop the only owner, until the process can be reaped.
void CommandRun::Process::leave_behind() {
  timer_.reset();
  readable_.reset();
  pause_.reset();
  output_.reset();
  exited_.reset();
  if (!pidfd_) return;
  exited_ = loop_.watch(pidfd_.get(), [self = shared_from_this()] { self->on_exit(); });
}

CommandRun::CommandRun(Loop& loop, const CommandOptions& plan, Ended ended)
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
      return fmt::format("was killed by signal {}", number);
    case End::timed_out:
      return fmt::format("was stopped after {:.1f} s{}{}", seconds, why.empty() ? "" : ": ", why);
    case End::not_started:
      break;
  }
  return "could not be started: " + why;
}

}  // namespace gpuyard
