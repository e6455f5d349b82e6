// gpuyard sim inject
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "cli/screen/output.h"
#include "cli/sim/sim.h"
#include "sim/visible_devices.h"
#include "sim/world_client.h"
#include "sim/world_status.h"

namespace gpuyard::cli {
namespace {

bool has_call_fault(const SimVerb& verb) {
  return verb.lost || verb.reset_required || verb.power_brake || !verb.row_remap.empty() ||
         verb.fan || verb.pcie_generation || verb.pcie_width || verb.nvlink_down ||
         !verb.call.empty();
}

bool has_no_effect(const SimVerb& verb) {
  return !has_call_fault(verb) && !verb.clear && !verb.xid && !verb.ecc_corrected &&
         !verb.ecc_uncorrected && !verb.heat && !verb.memory_heat;
}

sim::Fault states_of(const SimVerb& verb) {
  sim::Fault fault;
  fault.lost = verb.lost ? 1 : 0;
  fault.reset_required = verb.reset_required ? 1 : 0;
  fault.power_brake = verb.power_brake ? 1 : 0;
  fault.rows_pending = verb.row_remap == "pending" ? 1 : 0;
  fault.rows_failed = verb.row_remap == "failed" ? 1 : 0;
  fault.fans_stuck = verb.fan ? 1 : 0;
  fault.fan_percent = verb.fan.value_or(0);
  fault.pcie_generation = verb.pcie_generation.value_or(0);
  fault.pcie_width = verb.pcie_width.value_or(0);
  fault.nvlinks_down = verb.nvlink_down.value_or(0);
  return fault;
}

Result<sim::CallFault> broken_call_of(const SimVerb& verb) {
  const auto call = sim::call_from_name(verb.call);
  if (!call) {
    std::string names;
    for (std::size_t i = 1; i < sim::kCallCount; ++i) {
      names += (names.empty() ? "" : ", ") + std::string(sim::name_of(static_cast<sim::Call>(i)));
    }
    return Error{Errc::invalid, "unknown driver call \"" + verb.call + "\"; known calls: " + names};
  }
  if (!verb.code && !verb.latency_ms && !verb.never_returns) {
    return Error{Errc::invalid, "no fault given for " + verb.call +
                                    ": --code CODE, --latency-ms MS or --never-returns"};
  }
  return sim::CallFault{
      .call = *call,
      .code = verb.code.value_or(0),
      .latency_ms = verb.never_returns ? sim::kInfiniteLatency : verb.latency_ms.value_or(0),
      .times = verb.times};
}

Result<sim::Fault> fault_of(const SimVerb& verb) {
  sim::Fault fault = states_of(verb);
  if (!verb.call.empty()) {
    const auto call = broken_call_of(verb);
    if (!call) return call.error();
    fault.calls[0] = *call;
  }
  if (auto plausible = sim::check_fault(fault); !plausible) return std::move(plausible).error();
  return fault;
}

Result<void> inject_errors(const SimVerb& verb, bool uncorrected, std::uint32_t count) {
  const auto location = sim::ecc_location_from_name(verb.ecc_location);
  if (!location) {
    return Error{Errc::invalid, "unknown memory location \"" + verb.ecc_location + "\""};
  }
  return sim::add_ecc_errors(world_of(verb), verb.gpu,
                             {.location = *location, .uncorrected = uncorrected, .count = count});
}

}  // namespace

Result<void> sim_inject(const SimVerb& verb) {
  if (has_no_effect(verb)) {
    return Error{Errc::invalid, "no fault given", "",
                 "gpuyard sim inject --help  # lists the faults"};
  }
  const std::string world = world_of(verb);
  Result<void> done;
  if (verb.clear) done = sim::clear_faults(world, verb.gpu);
  if (done && has_call_fault(verb)) {
    const auto fault = fault_of(verb);
    if (!fault) return fault.error();
    done = sim::inject(world, verb.gpu, *fault);
  }
  if (done && verb.ecc_corrected) done = inject_errors(verb, false, *verb.ecc_corrected);
  if (done && verb.ecc_uncorrected) done = inject_errors(verb, true, *verb.ecc_uncorrected);
  if (done && verb.xid) done = sim::raise_xid(world, verb.gpu, *verb.xid);
  if (done && verb.heat) done = sim::set_heat(world, verb.gpu, *verb.heat);
  if (done && verb.memory_heat) done = sim::set_memory_heat(world, verb.gpu, *verb.memory_heat);
  return done;
}

// gpuyard sim run, gpuyard sim attach: real processes on simulated GPUs.
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
  const auto variable = sim::cuda_visible_devices_of(pid);
  if (!variable) return variable.error();
  std::vector<std::string> uuids;
  for (const sim::GpuStatus& gpu : world.gpus) uuids.push_back(gpu.uuid);
  auto gpus = sim::visible_devices(*variable, uuids);
  if (gpus.empty()) {
    return Error{Errc::not_found,
                 fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" of process {} names no GPU of this world",
                             *variable, pid),
                 "", fmt::format("gpuyard sim attach --pid {} --gpu 0", pid)};
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

// Puts this process on the GPU. The command that replaces it keeps its pid and start time.
Result<void> become_user_of(const SimVerb& verb) {
  const auto demand = demand_of(verb);
  if (!demand) return demand.error();
  const auto world = sim::world_status(world_of(verb));
  if (!world) return world.error();
  if (verb.gpu < 0 || static_cast<std::size_t>(verb.gpu) >= world->gpus.size()) {
    return Error{Errc::not_found, fmt::format("the simulated world has no GPU {}", verb.gpu)};
  }
  ::setenv("CUDA_VISIBLE_DEVICES", world->gpus[static_cast<std::size_t>(verb.gpu)].uuid.c_str(), 1);
  // An absolute path, because the command may change its directory.
  const std::string directory = std::filesystem::absolute(world->directory);
  ::setenv("GPUYARD_SIM_WORLD", directory.c_str(), 1);
  return sim::attach_process(world->directory, verb.gpu, ::getpid(), *demand);
}

}  // namespace

int sim_run(const SimVerb& verb) {
  if (const auto ready = become_user_of(verb); !ready) return print_error(ready.error());
  const std::vector<char*> words = pointers_to(verb.command);
  ::execvp(words[0], words.data());
  return print_exec_error(verb.command[0], errno);
}

Result<void> sim_attach(const SimVerb& verb) {
  const auto demand = demand_of(verb);
  if (!demand) return demand.error();
  if (!verb.synthetic) return attach_pid(verb, verb.pid.value_or(0), *demand);
  return sim::set_synthetic_processes(world_of(verb), verb.attach_gpu.value_or(0), *verb.synthetic,
                                      *demand);
}

}  // namespace gpuyard::cli
