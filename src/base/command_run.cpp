#include "base/command_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/command_host.h"
#include "base/files.h"
#include "base/mutex.h"
#include "base/spawn.h"
#include "base/unique_fd.h"
#include "base/worker.h"

namespace gpuyard {
namespace {

constexpr std::size_t kReadBufferSize = std::size_t{64} << 10;
// Bytes in one read that start a pause.
constexpr std::size_t kFloodThreshold = std::size_t{16} << 10;
constexpr Duration kFloodPause = std::chrono::milliseconds(10);
constexpr Duration kKillTimeout = std::chrono::seconds(1);
constexpr int kMaxFinalReads = 16;  // enough for all that a pipe can hold

// Keeps the last bytes of a text without end.
class OutputTail {
 public:
  void add(std::string_view bytes) {
    text_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kMaxCommandOutput)));
    cut_ = cut_ || bytes.size() > kMaxCommandOutput || text_.size() > kMaxCommandOutput;
    if (text_.size() > kMaxCommandOutput) text_.erase(0, text_.size() - kMaxCommandOutput);
  }
  void move_to(CommandOutcome& outcome) {
    outcome.output = std::move(text_);
    outcome.output_truncated = cut_;
  }

 private:
  std::string text_;
  bool cut_ = false;
};

// glibc has a wrapper for this system call only since 2.36.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

SpawnOptions spawn_options(const CommandOptions& options, int output) {
  return {.program = options.argv.front(),
          .arguments = {options.argv.begin() + 1, options.argv.end()},
          .search_path = true,
          .environment = options.environment,
          .output = output,
          .new_session = true};
}

// Takes one of CommandRun::kMaxStarting slots while it lives.
class StartSlot {
 public:
  StartSlot() { ++taken_; }
  ~StartSlot() { --taken_; }
  StartSlot(const StartSlot&) = delete;
  StartSlot& operator=(const StartSlot&) = delete;
  static bool is_exhausted() { return taken_ >= CommandRun::kMaxStarting; }

 private:
  static inline std::atomic<int> taken_ = 0;
};

// A command that is being started, shared by the thread that starts it and the loop that waits.
class PendingStart {
 public:
  // Called by the thread. Returns false, and kills the child, if nobody waits any more.
  bool deliver(const Result<pid_t>& child) {
    {
      const MutexLock lock(mutex_);
      child_ = child;
      if (!cancelled_) return true;
    }
    if (child) {
      ::kill(-*child, SIGKILL);
      ::waitpid(*child, nullptr, 0);
    }
    return false;
  }
  // Returns the child, if it was already started.
  std::optional<pid_t> cancel() {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    return child_ && *child_ ? std::optional(**child_) : std::nullopt;
  }
  Result<pid_t> take() {
    const MutexLock lock(mutex_);
    return *child_;
  }

 private:
  Mutex mutex_;
  std::optional<Result<pid_t>> child_ GUARDED_BY(mutex_);
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace

// Lives as long as its CommandRun, or until its process is reaped.
class CommandRun::Process : public std::enable_shared_from_this<Process> {
 public:
  Process(Loop& loop, OnEnd on_end)
      : loop_(loop), on_end_(std::move(on_end)), began_at_(loop.now()) {}

  void start(const CommandOptions& options) {
    if (auto started = try_start(options); !started) {
      timer_ = loop_.call_after(Duration::zero(), [this, why = started.error().text()] {
        end({.end = CommandOutcome::End::not_started, .why = why});
      });
    }
  }

  void abandon() {
    on_end_ = nullptr;
    cancel_start();
    detach();
    if (pidfd_) ::kill(-pid_, SIGKILL);
  }

 private:
  Result<void> try_start(const CommandOptions& options);
  void on_started(Duration timeout, Duration grace);
  void on_start_timeout();
  void cancel_start();
  void read_some();
  std::size_t read_once();
  void on_timeout(Duration grace);
  void on_kill();
  void on_exit();
  void end(CommandOutcome outcome);
  void detach();

  Loop& loop_;
  OnEnd on_end_;
  TimePoint began_at_;
  std::optional<ThreadWorker> starter_;
  std::shared_ptr<PendingStart> start_;  // set while the command is being started
  pid_t pid_ = 0;
  UniqueFd pidfd_;  // empty: nothing runs
  UniqueFd output_;
  OutputTail tail_;
  bool timed_out_ = false;
  Subscription readable_;
  Subscription exit_subscription_;
  Subscription timer_;
  Subscription pause_;
};

Result<void> CommandRun::Process::try_start(const CommandOptions& options) {
  if (options.argv.empty()) return Error{Errc::invalid, "no command given"};
  if (StartSlot::is_exhausted()) {
    return Error{
        Errc::busy,
        fmt::format("{} commands are waiting to start; check that their file system is available",
                    kMaxStarting)};
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
  start_ = std::make_shared<PendingStart>();
  starter_->post([weak = weak_from_this(), start = start_, place = std::make_shared<StartSlot>(),
                  theirs, options]() -> Worker::Completion {
    if (!start->deliver(spawn_unconfined(spawn_options(options, theirs->get())))) return nullptr;
    return [weak, timeout = options.timeout, grace = options.grace_period] {
      if (const auto self = weak.lock()) self->on_started(timeout, grace);
    };
  });
  timer_ = loop_.call_after(options.start_timeout, [this] { on_start_timeout(); });
  return {};
}

void CommandRun::Process::on_start_timeout() {
  cancel_start();
  detach();
  if (pidfd_) ::kill(-pid_, SIGKILL);
  end({.end = CommandOutcome::End::not_started,
       .why = "its file could not be read in time; check that its file system is available"});
}

// The thread kills a child that starts after this; the caller kills one that has started already.
void CommandRun::Process::cancel_start() {
  const auto start = std::exchange(start_, nullptr);
  const auto child = start ? start->cancel() : std::nullopt;
  if (!child) return;
  pid_ = *child;
  pidfd_ = open_pidfd(pid_);
  if (pidfd_) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void CommandRun::Process::on_started(Duration timeout, Duration grace) {
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
  exit_subscription_ = loop_.watch(pidfd_.get(), [this] { on_exit(); });
  readable_ = loop_.watch(output_.get(), [this] { read_some(); });
  timer_ = loop_.call_after(timeout, [this, grace] { on_timeout(grace); });
}

// Returns 0 if there is nothing more, or nothing now.
std::size_t CommandRun::Process::read_once() {
  std::array<char, kReadBufferSize> bytes;
  const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
  if (got == 0) readable_.reset();  // all writers closed it; the process may still run
  if (got <= 0) return 0;
  tail_.add({bytes.data(), static_cast<std::size_t>(got)});
  return static_cast<std::size_t>(got);
}

void CommandRun::Process::read_some() {
  if (read_once() < kFloodThreshold) return;
  readable_.reset();
  pause_ = loop_.call_after(
      kFloodPause, [this] { readable_ = loop_.watch(output_.get(), [this] { read_some(); }); });
}

void CommandRun::Process::on_timeout(Duration grace) {
  timed_out_ = true;
  ::kill(-pid_, SIGTERM);
  timer_ = loop_.call_after(grace, [this] { on_kill(); });
}

void CommandRun::Process::on_kill() {
  ::kill(-pid_, SIGKILL);
  timer_ = loop_.call_after(kKillTimeout, [this] {
    detach();
    end({.end = CommandOutcome::End::timed_out, .why = "it does not end, even after SIGKILL"});
  });
}

void CommandRun::Process::on_exit() {
  const auto self = shared_from_this();
  exit_subscription_.reset();
  // Kills its group first: until the process is reaped, no other process can have its number.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, WNOHANG);
  pidfd_.reset();
  for (int i = 0; i < kMaxFinalReads && output_ && read_once() > 0; ++i) {
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
  outcome.duration = loop_.now() - began_at_;
  tail_.move_to(outcome);
  if (const auto on_end = std::exchange(on_end_, nullptr)) on_end(outcome);
}

// Makes the loop the only owner, until the process can be reaped.
void CommandRun::Process::detach() {
  timer_.reset();
  readable_.reset();
  pause_.reset();
  output_.reset();
  exit_subscription_.reset();
  if (!pidfd_) return;
  exit_subscription_ = loop_.watch(pidfd_.get(), [self = shared_from_this()] { self->on_exit(); });
}

CommandRun::CommandRun(Loop& loop, const CommandOptions& options, OnEnd on_end)
    : process_(std::make_shared<Process>(loop, std::move(on_end))) {
  process_->start(options);
}

CommandRun::~CommandRun() {
  if (process_) process_->abandon();
}

std::string CommandOutcome::text() const {
  const double seconds = std::chrono::duration<double>(duration).count();
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
