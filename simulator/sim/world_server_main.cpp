#include "sim/world_server_main.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "sim/command_server.h"
#include "sim/demo.h"
#include "sim/gpu_commands.h"
#include "sim/pci_tree.h"
#include "sim/physics.h"
#include "sim/scenario.h"
#include "sim/stripped_library.h"
#include "sim/world.h"
#include "sim/world_lock.h"
#include "sim/world_server.h"

namespace gpuyard::sim {
namespace {

constexpr std::chrono::seconds kHousekeepingInterval{1};
// Simulated time before a world begins, so that its first reader sees GPUs at work.
constexpr std::chrono::seconds kWarmUp{72};

// Removes a world's own directory, which by then holds only the lock: no other world can have begun
// in it. A directory with anything else in it stays.
class PrivateDirectory {
 public:
  explicit PrivateDirectory(const WorldOptions& world)
      : path_(world.private_directory ? world.directory : "") {}
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory() {
    if (path_.empty()) return;
    remove_world_lock(path_);
    ::rmdir(path_.c_str());
  }

 private:
  std::string path_;
};

// Makes SIGTERM and SIGINT a descriptor to poll, so that the world's files are removed. Ignores
// SIGPIPE: a creator that ended before it read "ready" must not end the world server.
UniqueFd catch_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

UniqueFd make_timer(std::chrono::milliseconds period) {
  // Not CLOCK_BOOTTIME: the GPUs of a suspended machine are suspended too.
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const timespec length{.tv_sec = 0, .tv_nsec = static_cast<long>(period.count()) * 1'000'000};
  const itimerspec schedule{.it_interval = length, .it_value = length};
  ::timerfd_settime(timer.get(), 0, &schedule, nullptr);
  return timer;
}

Result<void> check_world_options(const WorldOptions& options) {
  if (!(options.speed >= kMinSpeed && options.speed <= kMaxSpeed)) {
    return Error{Errc::invalid, fmt::format("the speed must be {} to {}, not {}", kMinSpeed,
                                            kMaxSpeed, options.speed)};
  }
  if (options.stepped && options.speed != 1.0) {
    return Error{Errc::invalid, "a stepped world cannot have a speed"};
  }
  const std::uint32_t entry = options.process_entry_bytes;
  if (entry != 16 && entry != 24 && entry != 32) {
    return Error{Errc::invalid, "the process entry size must be 16, 24 or 32 bytes"};
  }
  return {};
}

// Reads the scenario file; without one, makes a scenario of the options alone.
Result<Scenario> scenario_of(const WorldOptions& options) {
  if (!options.scenario.empty()) return read_scenario(options.scenario, options.gpus);
  if (auto good = check_world_options(options); !good) return std::move(good).error();
  Scenario scenario;
  scenario.world = options;
  scenario.warm_up = kWarmUp;
  if (!options.demo) return scenario;
  auto fleet = parse_fleet(options.model, options.gpus);
  if (!fleet) return std::move(fleet).error();
  // A demo warms up with the work that its processes then take over.
  for (const DemoRole& role : demo_roles(fleet->size())) {
    scenario.loads.push_back(load_command(static_cast<int>(role.gpu), role.workload));
  }
  return scenario;
}

// Writes the world's own library, if it needs one. A dead world server's library is removed: it is
// not for this world.
class WorldLibrary {
 public:
  explicit WorldLibrary(const std::string& directory) : path_(stripped_nvml_path(directory)) {
    ::unlink(path_.c_str());
  }
  WorldLibrary(const WorldLibrary&) = delete;
  WorldLibrary& operator=(const WorldLibrary&) = delete;
  ~WorldLibrary() { ::unlink(path_.c_str()); }

  Result<void> write(const std::vector<std::string>& functions) const {
    if (functions.empty()) return {};
    return write_stripped_library(functions, full_nvml_path(), path_);
  }

 private:
  std::string path_;
};

// The link nvidia-smi in the world's directory. A world does without it where it cannot be made, as
// on a file system without links.
class SmiLink {
 public:
  explicit SmiLink(const std::string& directory) : path_(smi_link_path(directory)) {
    std::error_code failed;
    if (std::filesystem::is_symlink(path_, failed)) ::unlink(path_.c_str());  // of a dead server
    const std::string program = program_path();
    if (program.ends_with("/gpuyard")) made_ = ::symlink(program.c_str(), path_.c_str()) == 0;
  }
  SmiLink(const SmiLink&) = delete;
  SmiLink& operator=(const SmiLink&) = delete;
  ~SmiLink() {
    if (made_) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  bool made_ = false;
};

Result<World> world_of(const Scenario& scenario) {
  const WorldOptions& options = scenario.world;
  const auto fleet = parse_fleet(options.model, options.gpus);
  if (!fleet) return fleet.error();
  World world = make_world(*fleet, options.load, scenario.ambient, options.machine);
  for (const Command& load : scenario.loads) {
    for (std::uint32_t gpu = 0; gpu < world.gpus.size(); ++gpu) {
      if (load.gpu != gpu && load.gpu != kEveryGpu) continue;
      if (auto set = set_load(world.gpus[gpu], load, world.elapsed); !set) {
        return std::move(set).error();
      }
    }
  }
  while (world.elapsed < scenario.warm_up) step(world, kStep);
  if (options.demo) heat_demo_gpu(world);
  world.began = world.elapsed;
  if (!options.driver_version.empty()) world.driver.version = options.driver_version;
  world.process_entry_bytes = options.process_entry_bytes;
  world.time.speed = options.speed;
  world.setters = options.setters;
  if (options.speed != 1.0) world.time.mode = TimeMode::scaled;
  if (options.stepped) world.time.mode = TimeMode::stepped;
  return world;
}

// Each process on a GPU costs a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kMaxProcesses + 1024);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Reports once whether starting succeeded. It is constructed before any file is opened: without a
// creator another file would soon get this descriptor number.
class ReadyPipe {
 public:
  ReadyPipe() : fd_(::fcntl(kReadyFd, F_GETFD) >= 0 ? kReadyFd : -1) {}

  void report(const std::string& text) {
    [[maybe_unused]] const auto written = ::write(fd_.get(), text.data(), text.size());
    fd_.reset();
  }
  int report_error(const Error& error) {
    report(fmt::format("{} {}", static_cast<int>(error.code), error.text()));
    return exit_code_of(error.code);
  }

 private:
  UniqueFd fd_;
};

// Checks two signs, because another process may hold the lifeline's far end open. PR_SET_PDEATHSIG
// would be no third one: it fires when the creating *thread* ends.
bool is_creator_gone(pid_t creator, short lifeline_events) {
  return creator != 0 && (lifeline_events != 0 || ::getppid() != creator);
}

void run_loop(WorldServer& world_server, CommandServer& server, std::optional<Demo>& demo,
              PciTree* pci, const UniqueFd& signals, pid_t creator) {
  const UniqueFd timer = make_timer(kStep);
  TimePoint next_housekeeping = BootClock::now() + kHousekeepingInterval;
  std::vector<pollfd> polled;
  while (!world_server.is_stopping()) {
    polled.assign({{timer.get(), POLLIN, 0},
                   {signals.get(), POLLIN, 0},
                   {creator != 0 ? kLifelineFd : -1, 0, 0},
                   {world_server.exit_fd(), POLLIN, 0}});
    const std::size_t own = polled.size();
    server.append_descriptors(polled);
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;  // EINTR
    if (polled[1].revents != 0 || is_creator_gone(creator, polled[2].revents)) return;
    if (polled[3].revents != 0) world_server.remove_exited();
    std::uint64_t steps = 0;
    if (::read(timer.get(), &steps, sizeof steps) == ssize_t{sizeof steps})
      world_server.advance(steps);
    const TimePoint now = BootClock::now();
    if (pci) pci->update(world_server.world(), now);
    server.serve(std::span(polled).subspan(own), now);
    if (now < next_housekeeping) continue;
    if (!world_server.is_reachable()) return;
    if (demo) demo->update();
    next_housekeeping = now + kHousekeepingInterval;
  }
}

Result<void> run(const WorldServerOptions& options, ReadyPipe& ready) {
  const UniqueFd signals = catch_signals();  // before there are files to remove
  auto scenario = scenario_of(options.world);
  if (!scenario) return std::move(scenario).error();
  auto world = world_of(*scenario);
  if (!world) return std::move(world).error();
  const auto lock = acquire_world_lock(options.world.directory);
  if (!lock) return lock.error();
  const PrivateDirectory directory(options.world);  // removed after the files in it
  const WorldLibrary library(options.world.directory);
  if (auto done = library.write(scenario->world.missing); !done) return done;
  const SmiLink smi(options.world.directory);
  auto writer = WorldWriter::create(options.world.directory, *world);
  if (!writer) return std::move(writer).error();
  auto exit_monitor = ProcessExitMonitor::create();
  if (!exit_monitor) return std::move(exit_monitor).error();
  std::unique_ptr<PciTree> pci;
  if (options.world.suspend_after_s) {
    auto tree = PciTree::create(options.world.directory, *world,
                                std::chrono::seconds(*options.world.suspend_after_s));
    if (!tree) return std::move(tree).error();
    pci = *std::move(tree);
  }
  WorldServer world_server(*std::move(world), *std::move(writer), *std::move(exit_monitor));
  world_server.set_timeline(std::move(scenario->timeline));
  auto server =
      CommandServer::listen(options.world.directory, [&](const Command& command, const Peer& peer) {
        return world_server.execute(command, peer);
      });
  if (!server) return std::move(server).error();
  std::optional<Demo> demo;
  if (options.world.demo) demo.emplace(world_server, *options.world.demo);
  ready.report("ready");
  run_loop(world_server, *server, demo, pci.get(), signals, options.creator);
  return {};
}

}  // namespace

int run_world_server(const WorldServerOptions& options) {
  ::prctl(PR_SET_NAME, "gpuyard-keeper");  // started as /proc/self/exe, it would be called "exe"
  ReadyPipe ready;
  raise_descriptor_limit();
  const auto done = run(options, ready);
  return done ? 0 : ready.report_error(done.error());
}

int world_server_main(std::span<const std::string> arguments) {
  const auto options = parse_world_server_arguments(arguments);
  return options ? run_world_server(*options) : ReadyPipe().report_error(options.error());
}

}  // namespace gpuyard::sim
