#include "sim/demo.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ranges>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/proc_stat.h"
#include "base/spawn.h"
#include "base/text.h"
#include "sim/gpu_commands.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

// Its temperature at its power limit. With the waits of a training it is 79 to 84: above the
// alert "thermal" (80) most of the time, and never above 85, where a GPU is unhealthy.
constexpr double kHotCelsius = 85.5;

constexpr const char* kPlayer = "player";
constexpr const char* kLeases = "leases";

// The time for which the demo's waiting claim keeps its GPU, should it ever be granted.
constexpr std::chrono::seconds kClaimDuration{60};
// A daemon that has just started knows the processes of its GPUs after a few readings.
constexpr Duration kDaemonStartTimeout = 20s;
constexpr Duration kAdoptRetryDelay = 250ms;
constexpr Duration kAdoptTimeout = 5s;

}  // namespace

void make_demo(WorldOptions& options, const std::string& daemon) {
  const auto fleet = parse_fleet(options.model, options.gpus);
  if (!fleet || fleet->size() < kMinDemoGpus) return;  // a wrong fleet is an error elsewhere
  options.load = {};
  options.demo = daemon;
}

std::vector<DemoRole> demo_roles(std::size_t gpus) {
  if (gpus < kMinDemoGpus) return {};
  std::vector<DemoRole> roles = {
      {.name = "demo-training",
       .gpu = 0,
       .workload = {.kind = WorkloadKind::training},
       .leased = true},
      // Without a lease, as on most shared machines.
      {.name = "demo-notebook", .gpu = 2, .workload = {.kind = WorkloadKind::bursty, .load = 0.4}},
  };
  if (gpus >= 6) {
    roles.push_back({.name = "demo-serving",
                     .gpu = 4,
                     .workload = {.kind = WorkloadKind::bursty},
                     .leased = true});
  }
  return roles;
}

void heat_demo_gpu(World& world) {
  const auto roles = demo_roles(world.gpus.size());
  if (roles.empty()) return;
  Gpu& gpu = world.gpus[roles.front().gpu];
  const double rise = gpu.settings.power_limit_mw / 1000.0 * gpu.model->thermal_resistance;
  gpu.extra_heat = std::max(0.0, kHotCelsius - world.ambient - rise);
  gpu.temperature += gpu.extra_heat;
}

Demo::Demo(WorldServer& server, const std::string& daemon) : server_(server) {
  for (const DemoRole& role : demo_roles(server.world().gpus.size())) {
    // From here on the GPU works for the process alone.
    static_cast<void>(
        server_.execute(load_command(static_cast<int>(role.gpu), Workload{}), own_peer()));
    const auto process = start_process(role);
    if (process && attach_to_gpu(*process)) processes_.push_back(*process);
  }
  if (!daemon.empty() && !processes_.empty()) start_leases(daemon);
}

std::optional<Demo::DemoProcess> Demo::start_process(const DemoRole& role) const {
  const auto pid = spawn({.display_name = role.name,
                          .arguments = {kDemoVerb, kPlayer, role.name, std::to_string(::getpid())},
                          .inherit_stderr = false});
  if (!pid) return std::nullopt;
  const auto start_time = process_start_time(*pid);
  if (!start_time) return std::nullopt;
  return DemoProcess{role, *pid, *start_time};
}

void Demo::start_leases(const std::string& daemon) const {
  const DemoProcess& waited_for = processes_.front();
  std::vector<std::string> arguments = {kDemoVerb, kLeases, std::to_string(::getpid()), daemon,
                                        std::to_string(waited_for.role.gpu)};
  for (const DemoProcess& process : processes_) {
    if (!process.role.leased) continue;
    arguments.insert(arguments.end(), {std::to_string(process.pid), process.role.name});
  }
  // Without it the demo has no leases, and goes on.
  static_cast<void>(spawn({.display_name = "demo-claim",
                           .arguments = std::move(arguments),
                           .inherit_stderr = false})
                        .ok());
}

std::optional<std::uint32_t> Demo::index_of(std::uint32_t place) const {
  const auto& order = server_.world().order;
  const auto found = std::ranges::find(order, place);
  if (found == order.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - order.begin());
}

bool Demo::attach_to_gpu(const DemoProcess& process) {
  const World& world = server_.world();
  const auto index = index_of(process.role.gpu);
  if (!index || !world.driver.loaded) return true;  // the GPU may come back
  const Gpu& gpu = world.gpus[process.role.gpu];
  const Demand demand =
      demand_at(process.role.workload, process.role.gpu, world.elapsed, usable_memory(*gpu.model));
  const auto record =
      record_of(ProcessDemand{.vram_bytes = demand.vram_bytes, .load = demand.load});
  if (!record) return false;
  Command command{.verb = Verb::attach, .gpu = *index, .process = *record};
  command.process.pid = static_cast<std::uint32_t>(process.pid);
  command.process.start_time = process.start_time;
  return server_.execute(command, own_peer()).failed == 0;
}

void Demo::update() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::erase_if(processes_, [this](const DemoProcess& process) { return !attach_to_gpu(process); });
}

// The processes of the demo.
namespace {

// Asks the kernel to kill this process when its parent ends. False: the parent has ended already.
bool end_with_parent(const std::string& parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return std::to_string(::getppid()) == parent;
}

// player NAME PARENT [SECONDS] - sleeps, for so many seconds or until the parent ends.
int run_process(std::span<const std::string> arguments) {
  ::prctl(PR_SET_NAME, arguments[0].c_str());
  if (!end_with_parent(arguments[1])) return 0;
  if (arguments.size() == 2) ::pause();
  ::sleep(parse_number<unsigned>(arguments[2]).value_or(0));
  return 0;
}

// Gives the process a lease on the GPU that it uses, as soon as the daemon knows both.
void adopt_lease(const std::string& daemon, const std::string& pid, const std::string& name) {
  const TimePoint deadline = BootClock::now() + kDaemonStartTimeout;
  while (BootClock::now() < deadline) {
    const auto adopted = run_with_timeout(
        {.arguments = {"lease", "adopt", "--socket", daemon, "--pid", pid, "--note", name}},
        kAdoptTimeout);
    if (adopted) return;
    std::this_thread::sleep_for(kAdoptRetryDelay);
  }
}

// leases PARENT DAEMON GPU [PID NAME]... - gets each process its lease, then becomes a `gpuyard
// run` that waits for the GPU.
int run_leases(std::span<const std::string> arguments) {
  if (!end_with_parent(arguments[0])) return 0;
  const std::string& daemon = arguments[1];
  for (std::size_t i = 3; i + 1 < arguments.size(); i += 2)
    adopt_lease(daemon, arguments[i], arguments[i + 1]);
  const std::string program = program_path();
  const std::string parent = std::to_string(::getpid());
  const std::string seconds = std::to_string(kClaimDuration.count());
  std::vector<std::string> run = {
      "demo-claim", "run",     "--socket",   daemon,       "--quiet",     "--among",
      arguments[2], "--note",  "demo-claim", "--max-time", seconds + "s", "--",
      program,      kDemoVerb, kPlayer,      "demo-claim", parent,        seconds};
  std::vector<char*> pointers;
  for (std::string& word : run) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return 1;
}

}  // namespace

int demo_main(std::span<const std::string> arguments) {
  if (arguments.size() >= 3 && arguments[0] == kPlayer) return run_process(arguments.subspan(1));
  if (arguments.size() >= 4 && arguments[0] == kLeases) return run_leases(arguments.subspan(1));
  return 2;
}

}  // namespace gpuyard::sim
