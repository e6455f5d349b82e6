// gpuyard sim run, gpuyard sim attach: real processes on simulated GPUs.
#include <filesystem>

#include "base/spawn.h"
#include "base/try.h"
#include "cli/screen/output.h"
#include "cli/sim/sim.h"
#include "sim/visible_devices.h"
#include "sim/world_client.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

Result<sim::ProcessDemand> demand_of(const SimVerb& verb) {
  const auto vram = sim::parse_bytes(verb.vram);
  if (!vram) {
    return Error{Errc::invalid,
                 fmt::format("expected an amount of memory such as 10G; got \"{}\"", verb.vram)};
  }
  return sim::ProcessDemand{
      .kind = verb.graphics ? sim::ProcessKind::graphics : sim::ProcessKind::compute,
      .vram_bytes = *vram,
      .load = verb.process_load};
}

// Returns the GPUs that CUDA_VISIBLE_DEVICES of the process names.
Result<std::vector<int>> gpus_of(pid_t pid, const sim::WorldStatus& world) {
  const auto variable = GPUYARD_TRY(sim::cuda_visible_devices_of(pid));
  std::vector<std::string> uuids;
  for (const sim::GpuStatus& gpu : world.gpus) uuids.push_back(gpu.uuid);
  auto gpus = sim::visible_devices(variable, uuids);
  if (gpus.empty()) {
    return Error{Errc::not_found,
                 fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" of process {} names no GPU of this world",
                             variable, pid),
                 "", fmt::format("gpuyard sim attach --pid {} --gpu 0", pid)};
  }
  return gpus;
}

Result<void> attach_pid(const SimVerb& verb, pid_t pid, const sim::ProcessDemand& demand) {
  const std::string directory = world_of(verb);
  if (verb.attach_gpu) return sim::attach_process(directory, *verb.attach_gpu, pid, demand);
  const auto world = GPUYARD_TRY(sim::world_status(directory));
  const auto gpus = GPUYARD_TRY(gpus_of(pid, world));
  for (const int gpu : gpus) {
    GPUYARD_TRY(sim::attach_process(directory, gpu, pid, demand));
  }
  return {};
}

// Puts this process on the GPU. The command that replaces it keeps its pid and start time.
Result<void> become_user_of(const SimVerb& verb) {
  const auto demand = GPUYARD_TRY(demand_of(verb));
  const auto world = GPUYARD_TRY(sim::world_status(world_of(verb)));
  if (verb.gpu < 0 || static_cast<std::size_t>(verb.gpu) >= world.gpus.size()) {
    return Error{Errc::not_found, fmt::format("the simulated world has no GPU {}", verb.gpu)};
  }
  ::setenv("CUDA_VISIBLE_DEVICES", world.gpus[static_cast<std::size_t>(verb.gpu)].uuid.c_str(), 1);
  // An absolute path, because the command may change its directory.
  const std::string directory = std::filesystem::absolute(world.directory);
  ::setenv("GPUYARD_SIM_WORLD", directory.c_str(), 1);
  return sim::attach_process(world.directory, verb.gpu, ::getpid(), demand);
}

}  // namespace

int sim_run(const SimVerb& verb) {
  if (const auto ready = become_user_of(verb); !ready) return print_error(ready.error());
  const std::vector<char*> words = pointers_to(verb.command);
  ::execvp(words[0], words.data());
  return print_exec_error(verb.command[0], errno);
}

Result<void> sim_attach(const SimVerb& verb) {
  const auto demand = GPUYARD_TRY(demand_of(verb));
  if (!verb.synthetic) return attach_pid(verb, verb.pid.value_or(0), demand);
  return sim::set_synthetic_processes(world_of(verb), verb.attach_gpu.value_or(0), *verb.synthetic,
                                      demand);
}

}  // namespace gpuyard::cli
