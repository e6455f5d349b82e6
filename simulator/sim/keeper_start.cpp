// Starting a keeper: a child process, ready or refused within a deadline.
#include <fcntl.h>
#include <poll.h>
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
#include "base/spawn.h"
#include "sim/run_keeper.h"

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kReadyDeadline{5};
constexpr std::chrono::seconds kLeaveDeadline{1};
constexpr std::chrono::seconds kKillDeadline{1};
constexpr std::size_t kMaxReadyText = 1024;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The directory, made and absolute. In one that others can write to, files could be swapped under
// the keeper; but they may look.
Result<std::string> prepare_directory(const std::string& directory) {
  if (auto made = make_directories(parent_directory(directory)); !made) {
    return std::move(made).error();
  }
  if (auto made = make_private_directory(directory, 0755); !made) return std::move(made).error();
  std::array<char, PATH_MAX> absolute{};
  if (::realpath(directory.c_str(), absolute.data()) == nullptr) {
    return system_error("opening " + directory);
  }
  return std::string(absolute.data());
}

Result<pid_t> spawn_keeper(const KeeperOptions& options, const UniqueFd& ready,
                           const UniqueFd& lifeline) {
  // Its own session: a Ctrl-C meant for the creator must not take the GPUs away first.
  SpawnPlan plan{.program = options.world.program,
                 .arguments = keeper_arguments(options),
                 .given = {ready.get()},
                 .keeps_stderr = options.creator != 0,
                 .own_session = true};
  plan.arguments.insert(plan.arguments.begin(), "sim-keeper");
  if (options.creator != 0) plan.given.push_back(lifeline.get());
  return spawn(plan);
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
  std::uint32_t code = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, code);
  if (parsed.ec != std::errc{} || parsed.ptr == end) {
    return Error{Errc::internal, "the keeper ended before it was ready"};
  }
  return Error{errc_from_number(code), std::string(parsed.ptr + 1, end)};
}

Result<void> wait_until_ready(const UniqueFd& ready) {
  auto text = read_ready(ready);
  return text ? parse_ready(*text) : Result<void>(std::move(text).error());
}

bool reaped_within(pid_t child, Duration patience) {
  const TimePoint deadline = BootClock::now() + patience;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (BootClock::now() >= deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Ends a child of ours that has been told to leave, and takes its exit status. One that the kernel
// does not let go of, on a disk that hangs, is left behind.
void end_child(pid_t child, Duration patience) {
  if (reaped_within(child, patience)) return;
  ::kill(child, SIGKILL);
  static_cast<void>(reaped_within(child, kKillDeadline));
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
    end_child(*child, Duration::zero());
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
  end_child(keeper_, kLeaveDeadline);
}

}  // namespace gpuyard::sim
