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
#include "base/spawn.h"
#include "base/text.h"
#include "sim/world_commands.h"

namespace gpuyard::sim {
namespace {

using namespace std::chrono_literals;

// If it drew its power limit all the time. With the waits of a training it is 79 to 84: above the
// alert "thermal" (80) most of the time, and never above 85, where a GPU is unhealthy.
constexpr double kHotCelsius = 85.5;

constexpr const char* kPlayer = "player";
constexpr const char* kLeases = "leases";

// How long the GPU that the demo's claim waits for is kept, should the claim ever be granted.
constexpr std::chrono::seconds kClaimedFor{60};
// A daemon that has just started knows the processes of its GPUs after a few readings.
constexpr Duration kDaemonStarts = 20s;
constexpr Duration kBetweenTries = 250ms;
constexpr Duration kAdoptDeadline = 5s;

}  // namespace

void make_demo(WorldOptions& options, const std::string& daemon) {
  const auto fleet = parse_fleet(options.model, options.gpus);
  if (!fleet || fleet->size() < kFewestDemoGpus) return;  // a wrong fleet is an error elsewhere
  options.load = {};
  options.demo = daemon;
}

std::vector<DemoRole> demo_roles(std::size_t gpus) {
  if (gpus < kFewestDemoGpus) return {};
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

Demo::Demo(WorldServer& keeper, const std::string& daemon) : keeper_(keeper) {
  for (const DemoRole& role : demo_roles(keeper.world().gpus.size())) {
    // From here on the GPU works for the process alone.
    static_cast<void>(
        keeper_.execute(load_command(static_cast<int>(role.gpu), Workload{}), own_peer()));
    const auto player = start_player(role);
    if (player && put_on_its_gpu(*player)) players_.push_back(*player);
  }
  if (!daemon.empty() && !players_.empty()) start_leases(daemon);
}

std::optional<Demo::Player> Demo::start_player(const DemoRole& role) const {
  const auto pid = spawn({.shown_as = role.name,
                          .arguments = {kDemoVerb, kPlayer, role.name, std::to_string(::getpid())},
                          .keeps_stderr = false});
  if (!pid) return std::nullopt;
  const auto start_time = process_start_time(*pid);
  if (!start_time) return std::nullopt;
  return Player{role, *pid, *start_time};
}

void Demo::start_leases(const std::string& daemon) const {
  const Player& waited_for = players_.front();
  std::vector<std::string> words = {kDemoVerb, kLeases, std::to_string(::getpid()), daemon,
                                    std::to_string(waited_for.role.gpu)};
  for (const Player& player : players_) {
    if (!player.role.leased) continue;
    words.insert(words.end(), {std::to_string(player.pid), player.role.name});
  }
  // Without it the demo has no leases, and goes on.
  static_cast<void>(
      spawn({.shown_as = "demo-claim", .arguments = std::move(words), .keeps_stderr = false}).ok());
}

std::optional<std::uint32_t> Demo::index_of(std::uint32_t place) const {
  const auto& order = keeper_.world().order;
  const auto found = std::ranges::find(order, place);
  if (found == order.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - order.begin());
}

bool Demo::put_on_its_gpu(const Player& player) {
  const World& world = keeper_.world();
  const auto index = index_of(player.role.gpu);
  if (!index || !world.driver.loaded) return true;  // the GPU may come back
  const Gpu& gpu = world.gpus[player.role.gpu];
  const Demand demand =
      demand_at(player.role.workload, player.role.gpu, world.elapsed, usable_memory(*gpu.model));
  const auto record =
      record_of(ProcessDemand{.vram_bytes = demand.vram_bytes, .load = demand.load});
  if (!record) return false;
  Command command{.verb = Verb::attach, .gpu = *index, .process = *record};
  command.process.pid = static_cast<std::uint32_t>(player.pid);
  command.process.start_time = player.start_time;
  return keeper_.execute(command, own_peer()).failed == 0;
}

void Demo::go_on() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::erase_if(players_, [this](const Player& player) { return !put_on_its_gpu(player); });
}

// The processes of the demo.
namespace {

// Asks the kernel to kill this process when its parent ends. False: the parent has ended already.
bool die_with(const std::string& parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return std::to_string(::getppid()) == parent;
}

// player NAME PARENT [SECONDS] - sleeps, for so many seconds or until the parent ends.
int play(std::span<const std::string> words) {
  ::prctl(PR_SET_NAME, words[0].c_str());
  if (!die_with(words[1])) return 0;
  if (words.size() == 2) ::pause();
  ::sleep(number_in<unsigned>(words[2]).value_or(0));
  return 0;
}

// Gives the process a lease on the GPU that it uses, as soon as the daemon knows both.
void adopt(const std::string& daemon, const std::string& pid, const std::string& name) {
  const TimePoint deadline = BootClock::now() + kDaemonStarts;
  while (BootClock::now() < deadline) {
    const auto adopted = run_within(
        {.arguments = {"lease", "adopt", "--socket", daemon, "--pid", pid, "--note", name}},
        kAdoptDeadline);
    if (adopted) return;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// leases PARENT DAEMON GPU [PID NAME]... - gets each process its lease, then becomes a `gpuyard
// run` that waits for the GPU.
int lease(std::span<const std::string> words) {
  if (!die_with(words[0])) return 0;
  const std::string& daemon = words[1];
  for (std::size_t i = 3; i + 1 < words.size(); i += 2) adopt(daemon, words[i], words[i + 1]);
  const std::string program = program_path();
  const std::string parent = std::to_string(::getpid());
  const std::string seconds = std::to_string(kClaimedFor.count());
  std::vector<std::string> run = {"demo-claim",  "run",    "--socket", daemon,       "--quiet",
                                  "--among",     words[2], "--note",   "demo-claim", "--max-time",
                                  seconds + "s", "--",     program,    kDemoVerb,    kPlayer,
                                  "demo-claim",  parent,   seconds};
  std::vector<char*> pointers;
  for (std::string& word : run) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return 1;
}

}  // namespace

int demo_main(std::span<const std::string> words) {
  if (words.size() >= 3 && words[0] == kPlayer) return play(words.subspan(1));
  if (words.size() >= 4 && words[0] == kLeases) return lease(words.subspan(1));
  return 2;
}

}  // namespace gpuyard::sim
