#include "gpu/nvml/control.h"

#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/try.h"
#include "gpu/nvml/api.h"

namespace gpuyard::nvml {
namespace {

Error call_error(ReturnCode code, std::string_view action) {
  return {errc_of(code), fmt::format("{}: {}", action, text_of(code))};
}

Result<void> call_result(ReturnCode code, std::string_view action) {
  if (code == kSuccess) return {};
  return call_error(code, action);
}

Error read_error(ReturnCode code, SettingKind kind) {
  return call_error(code, fmt::format("reading the {}", display_name(kind)));
}

SettingValue single_value(unsigned value) {
  return {value, value};
}

// Returns the value. The driver's numbers are unsigned and mean "not available" by all ones.
std::optional<SettingValue> known_value(ReturnCode code, unsigned value) {
  if (code != kSuccess || value == std::numeric_limits<unsigned>::max()) return std::nullopt;
  return single_value(value);
}

// Queries an optional part of a reading, so a failure is not an error.
std::optional<SettingValue> query_value(const Call<DeviceHandle, unsigned*>& call,
                                        DeviceHandle device) {
  unsigned value = 0;
  const ReturnCode code = call(device, &value);
  return known_value(code, value);
}

// Returns the driver's default and range of the power limit, as far as they are known.
SettingState power_limit_range(const Api& api, DeviceHandle device) {
  SettingState range{{}, query_value(api.power_default_limit, device), {}, {}};
  unsigned min_mw = 0;
  unsigned max_mw = 0;
  const bool has_limits = api.power_limit_constraints(device, &min_mw, &max_mw) == kSuccess;
  constexpr unsigned kNotAvailable = std::numeric_limits<unsigned>::max();
  if (has_limits && min_mw <= max_mw && max_mw > 0 && max_mw < kNotAvailable)
    range.allowed = {min_mw, max_mw};
  return range;
}

using Clocks = Result<std::vector<unsigned>>;

// Entries of a list of clocks. Real lists have some hundred; a list of more than kMaxClockCapacity
// is a mistake.
constexpr unsigned kInitialClockCapacity = 512;
constexpr unsigned kMaxClockCapacity = 65536;

template <class Call>
Clocks query_clocks(SettingKind kind, Call call) {
  unsigned count = kInitialClockCapacity;
  std::vector<unsigned> clocks(count);
  ReturnCode code = call(&count, clocks.data());
  if (code == kInsufficientSize && count > kInitialClockCapacity && count <= kMaxClockCapacity) {
    clocks.resize(count);
    code = call(&count, clocks.data());
  }
  if (code != kSuccess) return read_error(code, kind);
  clocks.resize(std::min<std::size_t>(count, clocks.size()));
  return clocks;
}

Clocks memory_clocks_of(const Api& api, DeviceHandle device, SettingKind kind) {
  return query_clocks(kind, [&](unsigned* count, unsigned* clocks) {
    return api.supported_memory_clocks(device, count, clocks);
  });
}

// Returns the GPU clocks that are possible at any memory clock.
Clocks gpu_clocks_of(const Api& api, DeviceHandle device) {
  constexpr auto kKind = SettingKind::gpu_clocks;
  const auto memory = GPUYARD_TRY(memory_clocks_of(api, device, kKind));
  std::vector<unsigned> all;
  for (const unsigned at : memory) {
    const auto some = query_clocks(kKind, [&](unsigned* count, unsigned* clocks) {
      return api.supported_graphics_clocks(device, at, count, clocks);
    });
    if (!some) return some.error();
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

// A driver that does not list its clocks may still lock them.
Result<SettingState> clock_setting_state(const Clocks& clocks) {
  if (!clocks && clocks.error().code != Errc::unsupported) return clocks.error();
  SettingState state;
  if (!clocks || clocks->empty()) return state;
  const auto [lowest, highest] = std::ranges::minmax(*clocks);
  state.allowed = {lowest, highest};
  return state;
}

Result<SettingState> read_mode_setting(SettingKind kind, const Call<DeviceHandle, unsigned*>& call,
                                       DeviceHandle device) {
  unsigned mode = 0;
  const ReturnCode code = call(device, &mode);
  if (code != kSuccess) return read_error(code, kind);
  return SettingState{known_value(code, mode), {}, {}, {}};
}

Result<SettingState> read_ecc_setting(const Api& api, DeviceHandle device) {
  unsigned current = 0;
  unsigned pending = 0;
  const ReturnCode code = api.ecc_mode(device, &current, &pending);
  if (code != kSuccess) return read_error(code, SettingKind::ecc);
  SettingState state{single_value(pending), query_value(api.default_ecc_mode, device), {}, {}};
  if (current != pending) state.until_reset = single_value(current);
  return state;
}

ReturnCode set_clocks(const Call<DeviceHandle, unsigned, unsigned>& set,
                      const Call<DeviceHandle>& reset, DeviceHandle device,
                      const Setting& setting) {
  if (!setting.value) return reset(device);
  return set(device, static_cast<unsigned>(setting.value->lowest),
             static_cast<unsigned>(setting.value->highest));
}

ReturnCode set_one(const Call<DeviceHandle, unsigned>& set, DeviceHandle device,
                   const Setting& setting) {
  if (!setting.value) return kInvalidArgument;
  return set(device, static_cast<unsigned>(setting.value->lowest));
}

ReturnCode call_setter(const Api& api, DeviceHandle device, const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::power_limit:
      return set_one(api.set_power_limit, device, setting);
    case SettingKind::gpu_clocks:
      return set_clocks(api.set_gpu_clocks, api.reset_gpu_clocks, device, setting);
    case SettingKind::memory_clocks:
      return set_clocks(api.set_memory_clocks, api.reset_memory_clocks, device, setting);
    case SettingKind::persistence:
      return set_one(api.set_persistence_mode, device, setting);
    case SettingKind::compute_mode:
      return set_one(api.set_compute_mode, device, setting);
    case SettingKind::ecc:
      break;
  }
  return set_one(api.set_ecc_mode, device, setting);
}

bool is_representable(std::int64_t value) {
  return value >= 0 && value < std::numeric_limits<unsigned>::max();
}

}  // namespace

Result<SettingState> read_power_limit(const Api& api, DeviceHandle device, SettingState range) {
  unsigned limit = 0;
  const ReturnCode code = api.power_limit(device, &limit);
  if (code != kSuccess) return read_error(code, SettingKind::power_limit);
  range.now = known_value(code, limit);
  return range;
}

Result<SettingState> read_device_setting(const Api& api, DeviceHandle device, SettingKind kind) {
  switch (kind) {
    case SettingKind::power_limit:
      return read_power_limit(api, device, power_limit_range(api, device));
    case SettingKind::gpu_clocks:
      return clock_setting_state(gpu_clocks_of(api, device));
    case SettingKind::memory_clocks:
      return clock_setting_state(memory_clocks_of(api, device, kind));
    case SettingKind::persistence:
      return read_mode_setting(kind, api.persistence_mode, device);
    case SettingKind::compute_mode:
      return read_mode_setting(kind, api.compute_mode, device);
    case SettingKind::ecc:
      break;
  }
  return read_ecc_setting(api, device);
}

Result<void> write_device_setting(const Api& api, DeviceHandle device, const Setting& setting) {
  const std::string action =
      setting.value
          ? fmt::format("setting the {} to {}", display_name(setting.kind), text_of(setting))
          : fmt::format("resetting the {}", display_name(setting.kind));
  // NVML's numbers are narrower than ours; a wrapped number would mean something else.
  const bool meant = !setting.value || (is_representable(setting.value->lowest) &&
                                        is_representable(setting.value->highest));
  return call_result(meant ? call_setter(api, device, setting) : kInvalidArgument, action);
}

Result<void> clear_ecc_counter(const Api& api, DeviceHandle device, EccCounter counter) {
  const bool lifetime = counter == EccCounter::lifetime;
  return call_result(
      api.clear_ecc_counts(device, lifetime ? kEccAggregate : kEccVolatile),
      lifetime ? "clearing the aggregate ECC errors" : "clearing the volatile ECC errors");
}

Result<std::int64_t> read_total_energy(const Api& api, DeviceHandle device) {
  constexpr const char* kAction = "reading the total energy";
  unsigned long long millijoules = 0;
  const ReturnCode code = api.total_energy_consumption(device, &millijoules);
  if (code != kSuccess) return call_error(code, kAction);
  constexpr auto kMaxMillijoules = 1ULL << 53U;  // a larger number means "not available"
  if (millijoules > kMaxMillijoules) return call_error(kNoData, kAction);
  return static_cast<std::int64_t>(millijoules);
}

Privilege effective_privilege() {
  return {::geteuid(), (effective_capabilities() & capability_bit(CAP_SYS_ADMIN)) != 0};
}

Result<void> check_privilege(const Privilege& privilege) {
  if (privilege.sys_admin || privilege.uid == 0) return {};
  return Error{Errc::denied,
               fmt::format("changing GPUs needs CAP_SYS_ADMIN, which this process (uid {}) does "
                           "not have; run it as root, or give its systemd unit "
                           "AmbientCapabilities=CAP_SYS_ADMIN",
                           privilege.uid)};
}

}  // namespace gpuyard::nvml
