// gpuyard sim inject

#include "base/try.h"
#include "cli/sim/sim.h"
#include "sim/world_client.h"

namespace gpuyard::cli {
namespace {

bool has_call_fault(const SimVerb& verb) {
  return verb.lost || verb.reset_required || verb.power_brake || !verb.row_remap.empty() ||
         verb.fan || verb.pcie_generation || verb.pcie_width || verb.nvlink_down ||
         !verb.recovery_action.empty() || !verb.call.empty();
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
  fault.recovery_action = sim::recovery_action_from_name(verb.recovery_action);
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
    fault.calls[0] = GPUYARD_TRY(broken_call_of(verb));
  }
  GPUYARD_TRY(sim::check_fault(fault));
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
    const auto fault = GPUYARD_TRY(fault_of(verb));
    done = sim::inject(world, verb.gpu, fault);
  }
  if (done && verb.ecc_corrected) done = inject_errors(verb, false, *verb.ecc_corrected);
  if (done && verb.ecc_uncorrected) done = inject_errors(verb, true, *verb.ecc_uncorrected);
  if (done && verb.xid) done = sim::raise_xid(world, verb.gpu, *verb.xid);
  if (done && verb.heat) done = sim::set_heat(world, verb.gpu, *verb.heat);
  if (done && verb.memory_heat) done = sim::set_memory_heat(world, verb.gpu, *verb.memory_heat);
  return done;
}

}  // namespace gpuyard::cli
