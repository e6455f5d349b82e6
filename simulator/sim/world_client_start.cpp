// Starts a world server: a child process, ready or refused within a deadline.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "sim/driver_commands.h"
#include "sim/world_server_main.h"

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kReadyTimeout{5};
constexpr std::chrono::seconds kStopTimeout{1};
constexpr std::chrono::seconds kKillTimeout{1};
constexpr std::size_t kMaxReadyBytes = 1024;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Creates the directory and returns its absolute path. Other users may read it but not write to it:
// they could replace files under the world server.
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

Result<pid_t> spawn_server(const WorldServerOptions& options, const UniqueFd& ready,
                           const UniqueFd& lifeline) {
  // A session of its own: a Ctrl-C for the creator must not end the world server first.
  SpawnOptions spawn_options{.program = options.world.program,
                             .arguments = world_server_arguments(options),
                             .passed_fds = {ready.get()},
                             .inherit_stderr = options.creator != 0,
                             .new_session = true};
  spawn_options.arguments.insert(spawn_options.arguments.begin(), "sim-keeper");
  if (options.creator != 0) spawn_options.passed_fds.push_back(lifeline.get());
  return spawn(spawn_options);
}

// Reads the world server's message until it closes the pipe.
Result<std::string> read_ready(const UniqueFd& ready) {
  const TimePoint deadline = BootClock::now() + kReadyTimeout;
  std::string text;
  std::array<char, 256> chunk{};
  while (text.size() < kMaxReadyBytes) {
    pollfd waiting{ready.get(), POLLIN, 0};
    const auto left = std::max<std::int64_t>(0, to_milliseconds(deadline - BootClock::now()));
    const int polled = ::poll(&waiting, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0)
      return Error{Errc::timed_out, "the simulator process was not ready within 5 s"};
    const ssize_t got = ::read(ready.get(), chunk.data(), chunk.size());
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<void> parse_ready(std::string_view text) {
  if (text == "ready") return {};
  const auto code = take_number<std::uint32_t>(text);
  if (!code || text.empty()) {
    return Error{Errc::internal, "the simulator process exited before it was ready"};
  }
  return Error{errc_from_number(*code), std::string(text.substr(1))};
}

Result<void> wait_until_ready(const UniqueFd& ready) {
  auto text = read_ready(ready);
  return text ? parse_ready(*text) : Result<void>(std::move(text).error());
}

bool reap_within(pid_t child, Duration timeout) {
  const TimePoint deadline = BootClock::now() + timeout;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (BootClock::now() >= deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Ends a child process that was signalled to end, and reaps it. A child that the kernel cannot end,
// because of a disk that hangs, is left behind.
void end_child(pid_t child, Duration timeout) {
  if (reap_within(child, timeout)) return;
  ::kill(child, SIGKILL);
  static_cast<void>(reap_within(child, kKillTimeout));
}

}  // namespace

Result<RunningWorld> start_world(const WorldOptions& options, WorldLifetime lifetime) {
  auto directory = prepare_directory(options.directory);
  if (!directory) return std::move(directory).error();
  WorldServerOptions server_options{
      .world = options, .creator = lifetime == WorldLifetime::with_creator ? ::getpid() : 0};
  server_options.world.directory = *directory;
  auto ready = make_pipe();
  auto lifeline = make_pipe();
  if (!ready || !lifeline) return std::move(ready ? lifeline : ready).error();

  const auto child = spawn_server(server_options, ready->write, lifeline->read);
  if (!child) return child.error();
  ready->write.reset();
  lifeline->read.reset();
  if (auto good = wait_until_ready(ready->read); !good) {
    end_child(*child, Duration::zero());
    return std::move(good).error();
  }
  if (lifetime == WorldLifetime::independent) lifeline->write.reset();
  return RunningWorld(*std::move(directory), *child, std::move(lifeline->write));
}

RunningWorld::RunningWorld(std::string directory, pid_t pid, UniqueFd lifeline)
    : directory_(std::move(directory)), server_pid_(pid), lifeline_(std::move(lifeline)) {}

RunningWorld::RunningWorld(RunningWorld&& other) noexcept = default;

RunningWorld::~RunningWorld() {
  if (!lifeline_) return;  // independent, or moved from
  lifeline_.reset();
  end_child(server_pid_, kStopTimeout);
}

// The command line between a world server and its creator.
namespace {

Result<int> parse_int(const std::string& name, const std::string& text) {
  if (const auto value = parse_number<int>(text)) return *value;
  return Error{Errc::invalid, fmt::format("{}: \"{}\" is not a number", name, text)};
}

Result<void> parse_time_argument(WorldOptions& world, const std::string& name,
                                 const std::string& value) {
  const auto number = parse_number<double>(value);
  if (!number) {
    return Error{Errc::invalid, fmt::format("{}: \"{}\" is not a number", name, value)};
  }
  if (name == "--stepped") world.stepped = *number != 0;
  if (name == "--speed") world.speed = *number;
  return {};
}

Result<void> parse_argument(WorldServerOptions& options, const std::string& name,
                            const std::string& value) {
  if (name == "--directory") {
    options.world.directory = value;
  } else if (name == "--model") {
    options.world.model = value;
  } else if (name == "--machine") {
    options.world.machine = value;
  } else if (name == "--gpus" || name == "--creator" || name == "--private" ||
             name == "--suspend-after") {
    const auto number = parse_int(name, value);
    if (!number) return number.error();
    if (name == "--gpus") options.world.gpus = *number;
    if (name == "--creator") options.creator = *number;
    if (name == "--suspend-after") options.world.suspend_after_s = *number;
    if (name == "--private") options.world.private_directory = *number != 0;
  } else if (name == "--setters") {
    const auto setters = setter_access_from_name(value);
    if (!setters) return Error{Errc::invalid, fmt::format("unknown setters \"{}\"", value)};
    options.world.setters = *setters;
  } else if (name == "--load") {
    auto load = parse_workload(value);
    if (!load) return std::move(load).error();
    options.world.load = *load;
  } else if (name == "--missing") {
    options.world.missing.push_back(value);
  } else if (name == "--demo") {
    options.world.demo = value;
  } else if (name == "--scenario") {
    options.world.scenario = value;
  } else if (name == "--driver") {
    if (auto good = check_driver_version(value); !good) return good;
    options.world.driver_version = value;
  } else if (name == "--process-entries") {
    const auto bytes = parse_int(name, value);
    if (!bytes) return bytes.error();
    options.world.process_entry_bytes = static_cast<std::uint32_t>(*bytes);
  } else if (name == "--speed" || name == "--stepped") {
    return parse_time_argument(options.world, name, value);
  } else {
    return Error{Errc::invalid, fmt::format("unknown argument {}", name)};
  }
  return {};
}

}  // namespace

std::vector<std::string> world_server_arguments(const WorldServerOptions& options) {
  const WorldOptions& world = options.world;
  std::vector<std::string> arguments;
  const auto give = [&](const char* name, std::string value) {
    arguments.insert(arguments.end(), {name, std::move(value)});
  };
  give("--directory", world.directory);
  give("--model", world.model);
  give("--load", to_string(world.load));
  give("--setters", std::string(name_of(world.setters)));
  give("--creator", fmt::to_string(options.creator));
  give("--private", world.private_directory ? "1" : "0");
  give("--stepped", world.stepped ? "1" : "0");
  give("--speed", fmt::to_string(world.speed));
  give("--process-entries", fmt::to_string(world.process_entry_bytes));
  for (const std::string& function : world.missing) give("--missing", function);
  if (!world.machine.empty()) give("--machine", world.machine);
  if (world.demo) give("--demo", *world.demo);
  if (!world.scenario.empty()) give("--scenario", world.scenario);
  if (!world.driver_version.empty()) give("--driver", world.driver_version);
  if (world.gpus) give("--gpus", fmt::to_string(*world.gpus));
  if (world.suspend_after_s) give("--suspend-after", fmt::to_string(*world.suspend_after_s));
  return arguments;
}

Result<WorldServerOptions> parse_world_server_arguments(std::span<const std::string> arguments) {
  WorldServerOptions options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return Error{Errc::invalid, fmt::format("{} needs a value", arguments[i])};
    }
    if (auto taken = parse_argument(options, arguments[i], arguments[i + 1]); !taken) {
      return std::move(taken).error();
    }
  }
  return options;
}

}  // namespace gpuyard::sim
