#include "base/command_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/helper_socket.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/passed_fds.h"
#include "base/try.h"

namespace gpuyard {
namespace {

// One request is one datagram: this head, then the program, the arguments and the environment, each
// with a zero behind it. Beside it go the descriptors: the end of a pipe for the report, then what
// the child has as 0, 1, 2, ... The child itself writes its report: its pid, and errno if exec
// fails. A pipe that is closed without it means that there is no child.
struct RequestHead {
  std::uint32_t arguments = 0;
  std::uint32_t variables = 0;
  std::uint32_t own_session = 0;
};

constexpr std::size_t kStandardFds = 3;
// The command host of this process, one for all threads.
class CommandHostHandle {
 public:
  void set(UniqueFd socket, pid_t pid) {
    const MutexLock lock(mutex_);
    socket_ = socket ? std::make_shared<const UniqueFd>(std::move(socket)) : nullptr;
    pid_ = pid;
  }
  std::shared_ptr<const UniqueFd> socket() const {
    const MutexLock lock(mutex_);
    return socket_;
  }
  // Ends the command host: a late answer to a request must not make a second child.
  void end(const std::shared_ptr<const UniqueFd>& used) {
    const MutexLock lock(mutex_);
    if (socket_ != used) return;
    log::warning(
        "the process that starts commands has ended or is not responding: commands of alerts and "
        "resets have the daemon's own restrictions until the daemon is restarted");
    ::kill(pid_, SIGKILL);
    // A process that is stuck in the kernel is left behind.
    for (int tries = 0; tries < 100 && ::waitpid(pid_, nullptr, WNOHANG) == 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    socket_ = nullptr;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const UniqueFd> socket_ GUARDED_BY(mutex_);
  pid_t pid_ GUARDED_BY(mutex_) = 0;
};

CommandHostHandle& command_host_handle() {
  static CommandHostHandle host;
  return host;
}

std::string request_of(const ExecTexts& texts, bool own_session) {
  const RequestHead head{static_cast<std::uint32_t>(texts.arguments.size()),
                         static_cast<std::uint32_t>(texts.variables.size()), own_session ? 1U : 0U};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  const auto add = [&bytes](const std::string& text) {
    bytes.append(text, 0, text.find('\0')) += '\0';
  };
  add(texts.program);
  std::ranges::for_each(texts.arguments, add);
  std::ranges::for_each(texts.variables, add);
  return bytes;
}

// Returns nothing if the pipe was closed instead, or the time is over.
std::optional<std::int32_t> receive_number(int pipe, std::optional<Duration> max_wait) {
  const int timeout =
      max_wait ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*max_wait).count())
               : -1;
  pollfd polled{pipe, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&polled, 1, timeout);
  } while (ready < 0 && errno == EINTR);
  std::int32_t number = 0;
  if (ready <= 0 || ::read(pipe, &number, sizeof number) != sizeof number) return std::nullopt;
  return number;
}

// Asks the command host for the child. Returns nothing if it has ended or is not responding.
std::optional<Result<pid_t>> request_spawn(const std::shared_ptr<const UniqueFd>& host,
                                           const SpawnOptions& options) {
  const auto texts = GPUYARD_TRY(exec_texts(options));
  const std::string bytes = request_of(texts, options.new_session);
  if (bytes.size() > kMaxCommandBytes) {
    errno = E2BIG;
    return spawn_error(options);
  }
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::array<int, 2> ends{};
  if (!null || ::pipe2(ends.data(), O_CLOEXEC) != 0) return spawn_error(options);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  std::vector<int> fds = descriptors_for(options, null.get());
  fds.insert(fds.begin(), writes.get());
  if (send_with_fds(host->get(), bytes, fds) != static_cast<ssize_t>(bytes.size())) {
    // A descriptor that is not open is a mistake in the options.
    if (errno == EBADF || errno == EMFILE || errno == ETOOMANYREFS) return spawn_error(options);
    return std::nullopt;
  }
  writes.reset();
  auto pid = receive_number(reads.get(), kCommandHostTimeout);
  if (!pid) {
    command_host_handle().end(host);
    pid = receive_number(reads.get(), kCommandHostTimeout);  // of a child that had just begun
    if (!pid) return std::nullopt;
  }
  if (*pid > 0) {
    // Waits for exec, which may wait for a file system.
    const auto failed = receive_number(reads.get(), std::nullopt);
    if (!failed) return *pid;
    ::waitpid(*pid, nullptr, 0);
    errno = *failed;
  } else if (*pid == -EAGAIN || *pid == -ENOMEM) {
    errno = -*pid;
  } else {
    return std::nullopt;  // a kernel or a container without CLONE_PARENT
  }
  return spawn_error(options);
}

}  // namespace

void set_command_host(UniqueFd socket, pid_t pid) {
  const timeval timeout{kCommandHostTimeout / std::chrono::seconds(1), 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  command_host_handle().set(std::move(socket), pid);
}

Result<void> start_command_host() {
  auto pair = make_socket_pair();
  if (!pair) return Error(pair.error()).in("the process that starts commands");
  const auto pid = spawn(
      {.arguments = {"command-host"}, .passed_fds = {pair->theirs.get()}, .new_session = true});
  if (!pid) return pid.error();
  set_command_host(std::move(pair->ours), *pid);
  return {};
}

Result<pid_t> spawn_unconfined(const SpawnOptions& options) {
  if (const auto host = command_host_handle().socket()) {
    if (auto child = request_spawn(host, options)) return *std::move(child);
    command_host_handle().end(host);
  }
  return spawn(options);
}

// The other side.
namespace {

struct ReceivedRequest {
  RequestHead head;
  std::vector<char*> texts;   // in the buffer of the datagram
  std::vector<UniqueFd> fds;  // the report's first
};

// Returns nothing for a datagram that is no request, and, with `ended` set, at the end.
std::optional<ReceivedRequest> receive_request(int socket, std::vector<char>& buffer, bool& ended) {
  DatagramWithFds received = receive_with_fds(socket, buffer);
  ended = received.size == 0 ||
          (received.size < 0 && errno != EINTR && errno != ENOMEM && errno != ENOBUFS);
  if (received.size <= 0 || received.truncated) return std::nullopt;
  ReceivedRequest request{{}, {}, std::move(received.fds)};
  const auto size = static_cast<std::size_t>(received.size);
  if (size <= sizeof request.head || buffer[size - 1] != '\0' ||
      request.fds.size() < 1 + kStandardFds) {
    return std::nullopt;
  }
  std::memcpy(&request.head, buffer.data(), sizeof request.head);
  for (std::size_t at = sizeof request.head; at < size; at += std::strlen(&buffer[at]) + 1) {
    request.texts.push_back(&buffer[at]);
  }
  const std::size_t expected = std::size_t{1} + request.head.arguments + request.head.variables;
  if (request.texts.size() != expected || request.head.arguments == 0) return std::nullopt;
  return request;
}

void report(const UniqueFd& pipe, std::int32_t number) {
  static_cast<void>(::write(pipe.get(), &number, sizeof number) == sizeof number);
}

// Resets the signals to those of a fresh process, except those that glibc uses itself.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Puts each descriptor into its place. All others close by themselves at exec.
bool renumber_descriptors(std::vector<UniqueFd>& fds) {
  const int free = static_cast<int>(fds.size());
  for (UniqueFd& fd : fds) {
    const int copy = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, free);
    if (copy < 0) return false;
    fd.reset(copy);
  }
  for (std::size_t i = 1; i < fds.size(); ++i) {
    if (::dup2(fds[i].get(), static_cast<int>(i) - 1) < 0) return false;
  }
  return true;
}

// Becomes the command, in a process that was just made for it.
[[noreturn]] void exec_request(ReceivedRequest request) {
  report(request.fds.front(), static_cast<std::int32_t>(::getpid()));
  reset_signals();
  if (request.head.own_session != 0) ::setsid();
  if (renumber_descriptors(request.fds)) {
    std::vector<char*>& texts = request.texts;
    const auto arguments = std::next(texts.begin());
    const auto variables = arguments + static_cast<std::ptrdiff_t>(request.head.arguments);
    std::vector<char*> words(arguments, variables);
    std::vector<char*> environment(variables, texts.end());
    words.push_back(nullptr);
    environment.push_back(nullptr);
    ::execve(texts.front(), words.data(), environment.data());
  }
  report(request.fds.front(), errno);
  ::_exit(127);
}

}  // namespace

void run_command_host(int socket) {
  ::prctl(PR_SET_NAME, "gpuyard-command");
  // The daemon alone ends this process, by closing the socket.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  if (::fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) {
    log::error("command-host is started by `gpuyard serve` and must not be run by hand");
    ::_exit(2);
  }
  std::vector<char> buffer(kMaxCommandBytes);
  for (bool ended = false; !ended;) {
    auto request = receive_request(socket, buffer, ended);
    if (!request) continue;
    // CLONE_PARENT: the child is the daemon's, which waits for it and knows its pid. Nothing runs
    // beside this thread, so the child may use all that it may.
    const long child = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, 0);
    if (child == 0) exec_request(*std::move(request));
    if (child < 0) report(request->fds.front(), -errno);
  }
  ::_exit(0);
}

}  // namespace gpuyard
