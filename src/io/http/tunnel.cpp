#include "io/http/tunnel.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/mutex.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::http {
namespace {

// From the end of a connection until its child has ended, too, so that its reason can be reported.
constexpr Duration kExitTimeout = std::chrono::milliseconds(500);
// From SIGTERM to SIGKILL, and from that until the child is left to others.
constexpr Duration kTerminationGrace = std::chrono::milliseconds(500);
// Lines of stderr in a message. ssh says first what happened, and last what it does about it.
constexpr std::size_t kMaxStderrLines = 3;

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

void set_nonblocking(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// Starts children from a thread that lasts as long as the process. A child that wants to end with
// its parent (prctl(2), PR_SET_PDEATHSIG) ends with the thread that has started it, and a
// connection may outlive the thread that needed it first.
class ChildStarter {
 public:
  static Result<pid_t> start(const SpawnOptions& options) {
    static ChildStarter starter;
    Task task([&options] { return spawn(options); });
    auto started = task.get_future();
    {
      const MutexLock lock(starter.mutex_);
      starter.tasks_.push_back(std::move(task));
    }
    starter.condition_.notify_one();
    return started.get();
  }

 private:
  using Task = std::packaged_task<Result<pid_t>()>;

  void work(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    while (condition_.wait(mutex_, stop, [this]() REQUIRES(mutex_) { return !tasks_.empty(); })) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  Mutex mutex_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::condition_variable_any condition_;
  std::jthread thread_{[this](const std::stop_token& stop) { work(stop); }};
};

// Whether a line has words: ssh draws frames of signs around warnings.
bool has_text(std::string_view line) {
  return line.find_first_not_of("@*=- \t\r") != line.npos;
}

std::string last_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = take_until('\n', text);
    if (has_text(line)) lines.push_back(printable(trim(line)));
  }
  const std::size_t left_out = lines.size() - std::min(lines.size(), kMaxStderrLines);
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(left_out));
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "; ") + line;
  return all;
}

}  // namespace

Result<bool> has_greeting(std::string_view received) {
  const std::size_t at = received.find(kGreeting);
  if (at == received.npos) {
    if (received.size() <= kMaxBytesBeforeGreeting) return false;
    return Error{
        Errc::unavailable,
        fmt::format(
            "received more than {} bytes without a greeting; check that the other end is gpuyard",
            kMaxBytesBeforeGreeting)};
  }
  if (at + kGreeting.size() == received.size()) return true;
  return Error{Errc::unavailable, "received unexpected data"};
}

Result<std::unique_ptr<TunnelConnection>> TunnelConnection::open(const TunnelOptions& options) {
  const TimePoint deadline = BootClock::now() + options.greeting_timeout;
  std::unique_ptr<TunnelConnection> connection(new TunnelConnection(options));
  if (auto started = connection->start(); !started)
    return std::move(started).error().in(options.name);
  GPUYARD_TRY(connection->wait_for_greeting(deadline));
  return connection;
}

TunnelConnection::~TunnelConnection() {
  terminate_child();
}

Result<void> TunnelConnection::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("creating a socket");
  }
  socket_.reset(ends[0]);
  const UniqueFd child_socket(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  stderr_pipe_.reset(ends[0]);
  const UniqueFd child_stderr(ends[1]);
  set_nonblocking(socket_);
  set_nonblocking(stderr_pipe_);
  // With a session of its own, a Ctrl-C does not end it before a lease is released through it.
  const auto child =
      ChildStarter::start({.program = options_.command.front(),
                           .arguments = {options_.command.begin() + 1, options_.command.end()},
                           .search_path = true,
                           .connection = child_socket.get(),
                           .errors = child_stderr.get(),
                           .new_session = true});
  if (!child) return child.error();
  pid_ = *child;
  // glibc has a wrapper for this system call only since 2.36.
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd_) return {};
  auto error = system_error("watching a child process");
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  return error;
}

Result<void> TunnelConnection::wait_for_greeting(TimePoint deadline) {
  std::string received;
  for (;;) {
    const auto ready = has_greeting(received);
    if (!ready) return Error(ready.error()).in(options_.name);
    if (*ready) return {};
    std::array<pollfd, 2> polled{pollfd{socket_.get(), POLLIN, 0},
                                 pollfd{stderr_pipe_.get(), POLLIN, 0}};
    const int count = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
    if (count < 0 && errno != EINTR) return system_error("waiting for " + options_.name);
    if (BootClock::now() >= deadline) {
      return options_.explain(
          {.status = std::nullopt, .timed_out = true, .stderr_tail = last_lines(stderr_tail_)});
    }
    if (count <= 0) continue;
    if (polled[1].revents != 0) read_stderr();
    if (polled[0].revents == 0) continue;
    if (!read_some(received)) return failure_reason();
  }
}

// Reads the bytes that are there; false at the end of the connection.
bool TunnelConnection::read_some(std::string& received) {
  std::array<char, 4096> space;
  const ssize_t got = ::recv(socket_.get(), space.data(), space.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  received.append(space.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// A child that floods its stderr is slowed down by the pipe, and this reads it once each time.
void TunnelConnection::read_stderr() {
  if (!stderr_pipe_) return;
  std::array<char, 4096> space;
  const ssize_t got = ::read(stderr_pipe_.get(), space.data(), space.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    stderr_pipe_.reset();
    return;
  }
  stderr_tail_.append(space.data(), static_cast<std::size_t>(got));
  if (stderr_tail_.size() > kMaxStderrBytes)
    stderr_tail_.erase(0, stderr_tail_.size() - kMaxStderrBytes);
}

bool TunnelConnection::is_idle() const {
  pollfd entry{socket_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 0;
}

bool TunnelConnection::has_ended() const {
  char byte = 0;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

Result<std::string> TunnelConnection::exchange(std::string_view text, Duration timeout,
                                               std::size_t max_bytes) {
  const TimePoint deadline = BootClock::now() + timeout;
  std::string received;
  for (bool sending = true;;) {
    if (text.empty() && std::exchange(sending, false)) ::shutdown(socket_.get(), SHUT_WR);
    const int wanted = POLLIN | (sending ? POLLOUT : 0);
    std::array<pollfd, 2> polled{pollfd{socket_.get(), static_cast<short>(wanted), 0},
                                 pollfd{stderr_pipe_.get(), POLLIN, 0}};
    const int count = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
    if (count < 0 && errno != EINTR) return system_error("waiting for " + options_.name);
    if (BootClock::now() >= deadline) {
      return options_.explain(
          {.status = std::nullopt, .timed_out = true, .stderr_tail = last_lines(stderr_tail_)});
    }
    if (count <= 0) continue;
    if (polled[1].revents != 0) read_stderr();
    if ((polled[0].revents & POLLOUT) != 0 && sending) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent >= 0) text.remove_prefix(static_cast<std::size_t>(sent));
      // The other side may have answered before it ended.
      if (sent < 0 && errno != EAGAIN && errno != EINTR) text = {};
    }
    if ((polled[0].revents & ~POLLOUT) == 0) continue;
    if (!read_some(received))
      return received.empty() ? Result<std::string>(failure_reason()) : received;
    if (received.size() > max_bytes) {
      return Error{Errc::unavailable, fmt::format("{}: the answer is too long", options_.name)};
    }
  }
}

Error TunnelConnection::failure_reason() {
  return options_.explain(child_exit());
}

// Waits for the child's end; false if it did not end in time.
bool TunnelConnection::wait_for_exit(Duration timeout) {
  const TimePoint deadline = BootClock::now() + timeout;
  while (pidfd_) {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    const int count = ::poll(&entry, 1, milliseconds_until(deadline));
    if (count > 0) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_ && WIFEXITED(status)) {
        status_ = WEXITSTATUS(status);
      }
      pidfd_.reset();
    } else if (BootClock::now() >= deadline) {
      return false;
    }
  }
  return true;
}

ChildExit TunnelConnection::child_exit() {
  wait_for_exit(kExitTimeout);
  // What a pipe can hold, and no more: a descendant may go on writing.
  constexpr int kMaxReads = 16;
  for (int i = 0; i < kMaxReads && stderr_pipe_; ++i) read_stderr();
  return {.status = status_, .stderr_tail = last_lines(stderr_tail_)};
}

// SIGTERM first: ssh then ends what it has started itself, such as a ProxyCommand.
void TunnelConnection::terminate_child() {
  socket_.reset();
  if (!pidfd_ || wait_for_exit(Duration::zero())) return;
  ::kill(-pid_, SIGTERM);
  if (wait_for_exit(kTerminationGrace)) return;
  ::kill(-pid_, SIGKILL);
  wait_for_exit(kTerminationGrace);
}

Result<std::unique_ptr<TunnelConnection>> Tunnel::open(
    const std::vector<std::string>& arguments) const {
  TunnelOptions options = options_;
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  return TunnelConnection::open(options);
}

std::unique_ptr<TunnelConnection> Tunnel::take_idle() {
  std::unique_ptr<TunnelConnection> connection;
  TimePoint since;
  {
    const MutexLock lock(mutex_);
    connection = std::move(idle_);
    since = idle_since_;
  }
  const bool usable =
      connection != nullptr && BootClock::now() - since < kMaxIdleTime && connection->is_idle();
  return usable ? std::move(connection) : nullptr;
}

// The one that was kept before ends with the parameter, outside of the lock: it may take a moment.
void Tunnel::store_idle(std::unique_ptr<TunnelConnection> connection) {
  const MutexLock lock(mutex_);
  idle_.swap(connection);
  idle_since_ = BootClock::now();
}

}  // namespace gpuyard::http
