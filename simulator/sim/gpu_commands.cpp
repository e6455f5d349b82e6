#include "sim/gpu_commands.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/memory_errors.h"
#include "sim/scenario_table.h"

namespace gpuyard::sim {
namespace {

constexpr double kMaxExtraHeat = 100.0;

Result<void> set_heat(double& heat, double degrees) {
  if (!(degrees >= 0.0 && degrees <= kMaxExtraHeat)) {
    return Error{Errc::invalid, "extra heat must be 0 to 100 degrees"};
  }
  heat = degrees;
  return {};
}

Result<void> set_memory_heat(Gpu& gpu, double degrees) {
  if (!gpu.model->has_memory_temperature) {
    return Error{Errc::unsupported,
                 fmt::format("{} has no memory temperature sensor", gpu.model->name)};
  }
  return set_heat(gpu.extra_memory_heat, degrees);
}

}  // namespace

Command load_command(int gpu, const Workload& load) {
  Command command;
  command.verb = Verb::set_load;
  command.gpu = static_cast<std::uint32_t>(gpu);
  command.workload_kind = load.kind;
  command.load = load.load;
  command.vram_bytes = load.vram_bytes;
  command.period_ms = static_cast<std::uint64_t>(load.period.count());
  command.leaked_bytes_per_s = load.leaked_bytes_per_s;
  return command;
}

Result<void> set_load(Gpu& gpu, const Command& command, std::chrono::milliseconds now) {
  const bool known = command.workload_kind <= WorkloadKind::waiting;
  const bool in_range = command.load >= 0.0 && command.load <= 1.0;
  const std::chrono::milliseconds max_time = kMaxSimulatedTime;
  if (!known || !in_range || command.period_ms > static_cast<std::uint64_t>(max_time.count())) {
    return Error{Errc::invalid, "not a workload"};
  }
  gpu.workload = {.kind = command.workload_kind,
                  .load = command.load,
                  .vram_bytes = command.vram_bytes,
                  .period = std::chrono::milliseconds(command.period_ms),
                  .leaked_bytes_per_s = command.leaked_bytes_per_s,
                  .since = now};
  return {};
}

void number_calls(Fault& fault, std::uint64_t& made) {
  for (CallFault& call : fault.calls) {
    if (call.call != Call::none) call.number = ++made;
  }
}

// Faults of the driver's own calls are refused: they concern all GPUs.
Result<void> inject(Gpu& gpu, Fault fault, std::uint64_t& made) {
  if (auto plausible = check_fault(fault); !plausible) return plausible;
  if (auto possible = check_fault_on(*gpu.model, fault); !possible) return possible;
  if (std::ranges::find(fault.calls, Call::driver, &CallFault::call) != fault.calls.end()) {
    return Error{Errc::invalid, "calls of the driver itself fail for all GPUs; use --gpu all"};
  }
  number_calls(fault, made);
  return add_fault(gpu.fault, fault);
}

Result<void> change_gpu(Gpu& gpu, const Command& command) {
  switch (command.verb) {
    case Verb::clear_faults:
      gpu.fault = {};
      return {};
    case Verb::set_heat:
      return set_heat(gpu.extra_heat, command.load);
    case Verb::set_memory_heat:
      return set_memory_heat(gpu, command.load);
    default:
      return Error{Errc::invalid, "unknown command"};
  }
}

}  // namespace gpuyard::sim
