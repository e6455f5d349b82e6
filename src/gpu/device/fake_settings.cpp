#include "device/fake_settings.h"

#include <utility>

namespace gpuyard::fakes {
namespace {

constexpr SettingValue kOff{0, 0};
constexpr SettingValue kOn{1, 1};
constexpr SettingValue kDefaultLimit{300'000, 300'000};

}  // namespace

FakeSettings::FakeSettings() {
  put(SettingKind::power_limit, {kDefaultLimit, kDefaultLimit, SettingValue{100'000, 400'000}, {}});
  put(SettingKind::gpu_clocks, {{}, {}, SettingValue{210, 1980}, {}});
  put(SettingKind::memory_clocks, {{}, {}, SettingValue{1593, 2619}, {}});
  put(SettingKind::persistence, {kOff, {}, {}, {}});
  put(SettingKind::compute_mode, {kOff, {}, {}, {}});
  put(SettingKind::ecc, {kOn, kOn, {}, {}});
}

Result<SettingState> FakeSettings::look(SettingKind kind) const {
  const auto state = states_.find(kind);
  if (state == states_.end()) return Error{Errc::unsupported, "Not Supported"};
  return state->second;
}

Result<void> FakeSettings::apply(const Setting& setting) {
  const auto state = states_.find(setting.kind);
  if (state == states_.end()) return Error{Errc::unsupported, "Not Supported"};
  if (const auto fault = faults_.find(setting.kind); fault != faults_.end()) return fault->second;
  if (!check(setting, state->second)) return Error{Errc::invalid, "Invalid Argument"};
  if (!can_be_read(setting.kind)) return {};
  const auto before = std::exchange(state->second.now, setting.value);
  if (setting.kind != SettingKind::ecc) return {};
  auto& in_force = state->second.until_reset;
  if (!in_force) in_force = before;
  if (in_force == setting.value) in_force.reset();
  return {};
}

void FakeSettings::fail_writes(SettingKind kind, std::optional<Error> why) {
  faults_.erase(kind);
  if (why) faults_.emplace(kind, *std::move(why));
}

}  // namespace gpuyard::fakes
