#include "sim/gpu_changes.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/apply_setting.h"

namespace gpuyard::sim {
namespace {

constexpr double kMostExtraHeat = 100.0;

Result<void> set_heat(double& heat, double degrees) {
  if (!(degrees >= 0.0 && degrees <= kMostExtraHeat)) {
    return Error{Errc::invalid, "extra heat is from 0 to 100 degrees"};
  }
  heat = degrees;
  return {};
}

Result<void> set_memory_heat(Gpu& gpu, double degrees) {
  if (!gpu.model->has_memory_temperature) {
    return Error{Errc::unsupported, fmt::format("{} has no sensor at its memory", gpu.model->name)};
  }
  return set_heat(gpu.extra_memory_heat, degrees);
}

}  // namespace

Result<void> set_load(Gpu& gpu, const Command& command, std::chrono::milliseconds now) {
  if (command.workload_kind > WorkloadKind::mixed || !(command.load >= 0.0) || command.load > 1.0) {
    return Error{Errc::invalid, "not a workload"};
  }
  gpu.workload = {command.workload_kind, command.load, command.vram_bytes};
  gpu.workload_since = now;
  return {};
}

void number_calls(Fault& fault, std::uint64_t& made) {
  for (CallFault& call : fault.calls) {
    if (call.call != Call::none) call.number = ++made;
  }
}

// On a GPU of its own: what it asks of one, and only that.
Result<void> inject(Gpu& gpu, Fault fault, std::uint64_t& made) {
  if (auto plausible = check_fault(fault); !plausible) return plausible;
  if (auto possible = check_fault_on(*gpu.model, fault); !possible) return possible;
  if (std::ranges::find(fault.calls, Call::driver, &CallFault::call) != fault.calls.end()) {
    return Error{Errc::invalid, "calls of the driver itself fail for all GPUs: --gpu all"};
  }
  number_calls(fault, made);
  return add_fault(gpu.fault, fault);
}

Result<void> change_gpu(Gpu& gpu, const Command& command) {
  switch (command.verb) {
    case Verb::clear_faults:
      gpu.fault = {};
      return {};
    case Verb::reset:
      return reset_gpu(gpu);
    case Verb::set_heat:
      return set_heat(gpu.extra_heat, command.load);
    case Verb::set_memory_heat:
      return set_memory_heat(gpu, command.load);
    default:
      return Error{Errc::invalid, "unknown command"};
  }
}

}  // namespace gpuyard::sim
