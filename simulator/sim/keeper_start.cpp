// Starting a keeper: a child process, ready or refused within a deadline.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "sim/run_keeper.h"

extern char** environ;

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kReadyDeadline{5};
constexpr std::chrono::seconds kLeaveDeadline{1};
constexpr std::size_t kMaxReadyText = 1024;
constexpr int kFirstFreeFd = 10;  // above every number a keeper inherits

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Both ends above kFirstFreeFd, so that moving one to its place cannot overwrite another.
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  const UniqueFd low_read(ends[0]);
  const UniqueFd low_write(ends[1]);
  Pipe pipe{UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstFreeFd)),
            UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFreeFd))};
  if (!pipe.read || !pipe.write) return system_error("creating a pipe");
  return pipe;
}

// The directory, made and absolute. Somebody else's could be swapped under the keeper.
Result<std::string> prepare_directory(const std::string& directory) {
  if (auto made = make_directories(directory, 0755); !made) return std::move(made).error();
  std::array<char, PATH_MAX> absolute{};
  struct stat info{};
  if (::realpath(directory.c_str(), absolute.data()) == nullptr ||
      ::stat(absolute.data(), &info) != 0) {
    return system_error("opening " + directory);
  }
  if (info.st_uid != ::geteuid()) {
    return Error{Errc::denied, directory + " belongs to another user"};
  }
  return std::string(absolute.data());
}

// What posix_spawn does to a child between fork and exec.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    // Its own session: a Ctrl-C meant for the creator must not take the GPUs away first.
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  void pass(const UniqueFd& fd, int as) {
    ::posix_spawn_file_actions_adddup2(&actions_, fd.get(), as);
  }
  void null(int fd, int mode) {
    ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", mode, 0);
  }
  void close_from(int fd) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, fd); }

  Result<pid_t> spawn(const std::string& program, std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    errno = ::posix_spawn(&child, program.c_str(), &actions_, &attributes_, argv.data(), environ);
    if (errno != 0) return system_error("starting " + program);
    return child;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Result<pid_t> spawn_keeper(const KeeperOptions& options, const UniqueFd& ready,
                           const UniqueFd& lifeline) {
  SpawnPlan plan;
  plan.null(STDIN_FILENO, O_RDONLY);
  plan.null(STDOUT_FILENO, O_WRONLY);
  if (options.creator == 0) plan.null(STDERR_FILENO, O_WRONLY);
  plan.pass(ready, kReadyFd);
  if (options.creator != 0) plan.pass(lifeline, kLifelineFd);
  plan.close_from(options.creator != 0 ? kLifelineFd + 1 : kReadyFd + 1);
  const std::string& program = options.world.program;
  std::vector<std::string> arguments{program.empty() ? program_path() : program, "sim-keeper"};
  for (std::string& argument : keeper_arguments(options)) arguments.push_back(std::move(argument));
  return plan.spawn(program.empty() ? "/proc/self/exe" : program, arguments);
}

// What the keeper says until it closes the pipe.
Result<std::string> read_ready(const UniqueFd& ready) {
  const TimePoint deadline = BootClock::now() + kReadyDeadline;
  std::string text;
  std::array<char, 256> chunk{};
  while (text.size() < kMaxReadyText) {
    pollfd waiting{ready.get(), POLLIN, 0};
    const auto left = std::max<std::int64_t>(0, to_milliseconds(deadline - BootClock::now()));
    const int polled = ::poll(&waiting, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return Error{Errc::timed_out, "the keeper was not ready within 5 s"};
    const ssize_t got = ::read(ready.get(), chunk.data(), chunk.size());
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<void> parse_ready(const std::string& text) {
  if (text == "ready") return {};
  int code = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), code);
  if (parsed.ec != std::errc{} || code < 0 || code > static_cast<int>(Errc::internal)) {
    return Error{Errc::internal, "the keeper ended before it was ready"};
  }
  return Error{static_cast<Errc>(code), std::string(parsed.ptr + 1)};
}

Result<void> wait_until_ready(const UniqueFd& ready) {
  auto text = read_ready(ready);
  return text ? parse_ready(*text) : Result<void>(std::move(text).error());
}

// Ends a child of ours that has been told to leave, and takes its exit status.
void reap(pid_t child, Duration patience) {
  const TimePoint deadline = BootClock::now() + patience;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (BootClock::now() >= deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    ::poll(nullptr, 0, 5);
  }
}

}  // namespace

Result<RunningWorld> start_keeper(const WorldOptions& options, KeeperLifetime lifetime) {
  auto directory = prepare_directory(options.directory);
  if (!directory) return std::move(directory).error();
  KeeperOptions keeper{.world = options,
                       .creator = lifetime == KeeperLifetime::with_creator ? ::getpid() : 0};
  keeper.world.directory = *directory;
  auto ready = make_pipe();
  auto lifeline = make_pipe();
  if (!ready || !lifeline) return std::move(ready ? lifeline : ready).error();

  const auto child = spawn_keeper(keeper, ready->write, lifeline->read);
  if (!child) return child.error();
  ready->write.reset();
  lifeline->read.reset();
  if (auto good = wait_until_ready(ready->read); !good) {
    reap(*child, Duration::zero());
    return std::move(good).error();
  }
  if (lifetime == KeeperLifetime::independent) lifeline->write.reset();
  return RunningWorld(*std::move(directory), *child, std::move(lifeline->write));
}

RunningWorld::RunningWorld(std::string directory, pid_t keeper, UniqueFd lifeline)
    : directory_(std::move(directory)), keeper_(keeper), lifeline_(std::move(lifeline)) {}

RunningWorld::RunningWorld(RunningWorld&& other) noexcept = default;

RunningWorld::~RunningWorld() {
  if (!lifeline_) return;  // independent, or moved from
  lifeline_.reset();
  reap(keeper_, kLeaveDeadline);
}

}  // namespace gpuyard::sim
