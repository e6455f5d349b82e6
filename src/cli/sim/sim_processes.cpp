// gpuyard sim run, gpuyard sim attach: real processes on simulated GPUs.
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "cli/exit_codes.h"
#include "cli/screen/terminal.h"
#include "cli/sim/sim.h"
#include "sim/keeper.h"
#include "sim/visible_devices.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

// What a shell says of a command it cannot find or run.

Result<sim::ProcessDemand> demand_of(const SimVerb& verb) {
  const auto vram = sim::parse_bytes(verb.vram);
  if (!vram) {
    return Error{Errc::invalid, fmt::format("\"{}\" is not an amount of memory", verb.vram)};
  }
  return sim::ProcessDemand{
      .kind = verb.graphics ? sim::ProcessKind::graphics : sim::ProcessKind::compute,
      .vram_bytes = *vram,
      .load = verb.process_load};
}

// The GPUs that the process itself says it uses.
Result<std::vector<int>> gpus_of(pid_t pid, const sim::WorldStatus& world) {
  const auto variable = sim::cuda_visible_devices_of(pid);
  if (!variable) return variable.error();
  std::vector<std::string> uuids;
  for (const sim::GpuStatus& gpu : world.gpus) uuids.push_back(gpu.uuid);
  auto gpus = sim::visible_devices(*variable, uuids);
  if (gpus.empty()) {
    return Error{Errc::not_found,
                 fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" of process {} shows it no GPU of this "
                             "world; say --gpu N",
                             *variable, pid)};
  }
  return gpus;
}

Result<void> attach_pid(const SimVerb& verb, pid_t pid, const sim::ProcessDemand& demand) {
  const std::string directory = world_of(verb);
  if (verb.attach_gpu) return sim::attach_process(directory, *verb.attach_gpu, pid, demand);
  const auto world = sim::world_status(directory);
  if (!world) return world.error();
  const auto gpus = gpus_of(pid, *world);
  if (!gpus) return gpus.error();
  for (const int gpu : *gpus) {
    if (auto done = sim::attach_process(directory, gpu, pid, demand); !done) return done;
  }
  return {};
}

// Puts this very process on the GPU. Who it becomes next keeps its pid and its start time.
Result<void> become_user_of(const SimVerb& verb) {
  const auto demand = demand_of(verb);
  if (!demand) return demand.error();
  const auto world = sim::world_status(world_of(verb));
  if (!world) return world.error();
  if (verb.gpu < 0 || static_cast<std::size_t>(verb.gpu) >= world->gpus.size()) {
    return Error{Errc::not_found, fmt::format("the world has no GPU {}", verb.gpu)};
  }
  ::setenv("CUDA_VISIBLE_DEVICES", world->gpus[static_cast<std::size_t>(verb.gpu)].uuid.c_str(), 1);
  // Absolute: the command may go elsewhere.
  const std::string directory = std::filesystem::absolute(world->directory);
  ::setenv("GPUYARD_SIM_WORLD", directory.c_str(), 1);
  return sim::attach_process(world->directory, verb.gpu, ::getpid(), *demand);
}

}  // namespace

int sim_run(const SimVerb& verb) {
  if (const auto ready = become_user_of(verb); !ready) return complain(ready.error());
  std::vector<char*> words;
  for (const std::string& word : verb.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int code = errno == ENOENT ? kNoSuchCommand : kCannotRun;
  static_cast<void>(complain(system_error("running " + verb.command[0])));
  return code;
}

int sim_attach(const SimVerb& verb) {
  const auto demand = demand_of(verb);
  if (!demand) return complain(demand.error());
  const auto done = verb.synthetic
                        ? sim::set_synthetic_processes(world_of(verb), verb.attach_gpu.value_or(0),
                                                       *verb.synthetic, *demand)
                        : attach_pid(verb, verb.pid.value_or(0), *demand);
  return done ? 0 : complain(done.error());
}

}  // namespace gpuyard::cli
