#include "sim/fault.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/record.h"
#include "gpu/nvml/abi.h"
#include "sim/model.h"

namespace gpuyard::sim {
namespace {

static_assert(kCallCount == static_cast<std::size_t>(Call::setters) + 1);
static_assert(static_cast<unsigned>(RecoveryAction::reset) == nvml::kRecoveryReset);
static_assert(static_cast<unsigned>(RecoveryAction::drain_and_reset) ==
              nvml::kRecoveryDrainAndReset);

bool is_setter(Call call) {
  return call >= Call::set_power_limit && call <= Call::clear_ecc_counters;
}

Result<void> check_call(const CallFault& call) {
  if (static_cast<std::size_t>(call.call) >= kCallCount) {
    return Error{Errc::invalid, "unknown driver call number"};
  }
  if ((call.code < nvml::kSuccess || call.code > nvml::kResetTypeNotSupported) &&
      call.code != nvml::kUnknown) {
    return Error{Errc::invalid,
                 std::to_string(call.code) + " is not an NVML return code: use 1 to 30, or 999"};
  }
  if (call.code == nvml::kSuccess && call.latency_ms == 0) {
    return Error{Errc::invalid, "a driver call that succeeds without delay is not a fault"};
  }
  return {};
}

bool is_lane_count(std::uint32_t lanes) {
  return lanes <= 16 && (lanes & (lanes - 1)) == 0;
}

// Every state of a GPU; for a state with several fields, its value.
constexpr std::array kStates{&Fault::lost,         &Fault::reset_required, &Fault::power_brake,
                             &Fault::rows_pending, &Fault::rows_failed,    &Fault::fans_stuck};
constexpr std::array kValues{&Fault::pcie_generation, &Fault::pcie_width, &Fault::nvlinks_down};

}  // namespace

std::string_view name_of(Call call) {
  return enum_name(call);
}

std::optional<Call> call_from_name(std::string_view name) {
  const auto call = enum_from_name<Call>(name);
  return call != Call::none ? call : std::nullopt;
}

RecoveryAction recovery_action_from_name(std::string_view name) {
  return enum_from_name<RecoveryAction>(name).value_or(RecoveryAction::none);
}

std::vector<std::string_view> recovery_action_names() {
  std::vector<std::string_view> names;
  for (auto action = static_cast<std::uint32_t>(RecoveryAction::reset);
       action <= static_cast<std::uint32_t>(RecoveryAction::drain_and_reset); ++action) {
    names.push_back(enum_name(static_cast<RecoveryAction>(action)));
  }
  return names;
}

std::optional<std::size_t> fault_of(const CallFaults& calls, Call call) {
  for (const Call wanted : {call, is_setter(call) ? Call::setters : call, Call::any}) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].call == wanted) return i;
    }
  }
  return std::nullopt;
}

Result<void> check_fault(const Fault& fault) {
  for (const auto state : kStates) {
    if (fault.*state > 1) return Error{Errc::invalid, "a state must be on or off"};
  }
  if (fault.fan_percent > 100)
    return Error{Errc::invalid, "the fan speed must be 0 to 100 percent"};
  if (!is_lane_count(fault.pcie_width)) {
    return Error{Errc::invalid, "the PCIe width must be 1, 2, 4, 8 or 16 lanes"};
  }
  if (fault.recovery_action > RecoveryAction::drain_and_reset || fault.reserved != 0) {
    return Error{Errc::invalid, "unknown recovery action number"};
  }
  for (const CallFault& call : fault.calls) {
    if (call.call == Call::none) continue;
    if (auto plausible = check_call(call); !plausible) return plausible;
  }
  return {};
}

Result<void> check_fault_on(const Model& model, const Fault& fault) {
  const auto lacks = [&](const char* what) {
    return Error{Errc::unsupported, std::string(model.name) + what};
  };
  if (fault.fans_stuck != 0 && model.fans == 0) return lacks(" has no fans");
  if ((fault.rows_pending | fault.rows_failed) != 0 &&
      model.memory_repair != MemoryRepair::remapped_rows) {
    return lacks(" does not remap rows");
  }
  if (fault.pcie_generation > model.pcie.max_generation ||
      fault.pcie_width > model.pcie.max_width) {
    return lacks(" does not support such a PCIe link");
  }
  if (fault.nvlinks_down > model.nvlink.links) {
    return lacks(fmt::format(" has {} NVLinks", model.nvlink.links).c_str());
  }
  return {};
}

Result<void> add_fault(Fault& fault, const Fault& more) {
  Fault sum = fault;
  for (const auto state : kStates) sum.*state |= more.*state;
  for (const auto value : kValues) {
    if (more.*value != 0) sum.*value = more.*value;
  }
  if (more.fans_stuck != 0) sum.fan_percent = more.fan_percent;
  if (more.recovery_action != RecoveryAction::none) sum.recovery_action = more.recovery_action;
  for (const CallFault& added : more.calls) {
    if (added.call == Call::none) continue;
    auto place = std::ranges::find(sum.calls, added.call, &CallFault::call);
    if (place == sum.calls.end()) {
      place = std::ranges::find(sum.calls, Call::none, &CallFault::call);
    }
    if (place == sum.calls.end()) {
      return Error{Errc::conflict,
                   std::to_string(kMaxCallFaults) +
                       " driver calls of this GPU already have faults, the maximum"};
    }
    *place = added;
  }
  fault = sum;
  return {};
}

std::vector<std::string> conditions_of(const Fault& fault) {
  std::vector<std::string> words;
  const auto add = [&](std::uint32_t state, const char* name) {
    if (state != 0) words.emplace_back(name);
  };
  const auto add_value = [&](std::uint32_t there, const char* name, std::uint32_t value) {
    if (there != 0) words.push_back(name + (" " + std::to_string(value)));
  };
  add(fault.lost, "lost");
  add(fault.reset_required, "reset_required");
  add(fault.power_brake, "power_brake");
  add(fault.rows_pending, "row_remap_pending");
  add(fault.rows_failed, "row_remap_failed");
  add_value(fault.fans_stuck, "fan_stuck", fault.fan_percent);
  add_value(fault.pcie_generation, "pcie_generation", fault.pcie_generation);
  add_value(fault.pcie_width, "pcie_width", fault.pcie_width);
  add_value(fault.nvlinks_down, "nvlink_down", fault.nvlinks_down);
  if (fault.recovery_action != RecoveryAction::none) {
    words.push_back(fmt::format("recovery_action {}", enum_name(fault.recovery_action)));
  }
  return words;
}

}  // namespace gpuyard::sim
