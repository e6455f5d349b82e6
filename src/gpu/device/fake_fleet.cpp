#include "gpu/device/fake_fleet.h"

#include <utility>

#include "gpu/device/reading.h"

namespace gpuyard::fakes {
namespace {

constexpr SettingValue kOff{0, 0};
constexpr SettingValue kOn{1, 1};
constexpr SettingValue kDefaultLimit{300'000, 300'000};

}  // namespace

FakeSettings::FakeSettings() {
  set(SettingKind::power_limit, {kDefaultLimit, kDefaultLimit, SettingValue{100'000, 400'000}, {}});
  set(SettingKind::gpu_clocks, {{}, {}, SettingValue{210, 1980}, {}});
  set(SettingKind::memory_clocks, {{}, {}, SettingValue{1593, 2619}, {}});
  set(SettingKind::persistence, {kOff, {}, {}, {}});
  set(SettingKind::compute_mode, {kOff, {}, {}, {}});
  set(SettingKind::ecc, {kOn, kOn, {}, {}});
}

Result<SettingState> FakeSettings::read_setting(SettingKind kind) const {
  const auto state = states_.find(kind);
  if (state == states_.end()) return Error{Errc::unsupported, "Not Supported"};
  return state->second;
}

Result<void> FakeSettings::apply(const Setting& setting) {
  const auto state = states_.find(setting.kind);
  if (state == states_.end()) return Error{Errc::unsupported, "Not Supported"};
  if (const auto fault = faults_.find(setting.kind); fault != faults_.end()) return fault->second;
  if (!check_setting(setting, state->second)) return Error{Errc::invalid, "Invalid Argument"};
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

// Sets the settings of a fake fleet for a test, and carries out its driver's writes.
namespace {

// Returns the readings that show a setting, if the GPU has them.
std::vector<Metric> metrics_of_setting(SettingKind kind) {
  switch (kind) {
    case SettingKind::power_limit:
      return {Metric::power_limit, Metric::power_limit_set};
    case SettingKind::persistence:
      return {Metric::persistence_mode};
    case SettingKind::compute_mode:
      return {Metric::compute_mode};
    case SettingKind::ecc:
      return {Metric::ecc_mode_pending};
    case SettingKind::gpu_clocks:
    case SettingKind::memory_clocks:
      break;
  }
  return {};
}

std::vector<Metric> metrics_of_counter(EccCounter counter) {
  if (counter == EccCounter::lifetime) {
    return {Metric::ecc_corrected_aggregate, Metric::ecc_uncorrected_aggregate};
  }
  return {Metric::ecc_corrected_volatile, Metric::ecc_uncorrected_volatile};
}

template <class Values>
void set_values(Values& values, const std::vector<Metric>& metrics, std::int64_t value) {
  for (const Metric metric : metrics) {
    const auto found = values.find(metric);
    if (found == values.end()) continue;
    if (std::get_if<std::int64_t>(&found->second) != nullptr) found->second = value;
  }
}

}  // namespace

Result<std::int64_t> FakeFleet::State::Gpu::energy() const {
  const auto found = values.find(Metric::energy_total);
  if (found == values.end()) return Error{Errc::unsupported, "Not Supported"};
  if (const auto* millijoules = std::get_if<std::int64_t>(&found->second)) return *millijoules;
  const Missing* why = std::get_if<Missing>(&found->second);
  return Error{Errc::internal, why != nullptr ? describe(*why) : "it is a text"};
}

Result<void> FakeFleet::State::Gpu::change(const Setting& setting) {
  auto done = settings.apply(setting);
  if (done && setting.value)
    set_values(values, metrics_of_setting(setting.kind), setting.value->lowest);
  return done;
}

Result<void> FakeFleet::State::Gpu::change(EccCounter counter) {
  if (!settings.read_setting(SettingKind::ecc)) return Error{Errc::unsupported, "Not Supported"};
  set_values(values, metrics_of_counter(counter), 0);
  return {};
}

void FakeFleet::set_setting(std::uint32_t index, SettingKind kind, const SettingState& state) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.set(kind, state); });
}

void FakeFleet::set_unsupported(std::uint32_t index, SettingKind kind) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.remove(kind); });
}

void FakeFleet::fail_setting_writes(std::uint32_t index, SettingKind kind,
                                    std::optional<Error> why) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.fail_writes(kind, std::move(why)); });
}

void FakeFleet::deny_control(std::optional<Error> why) {
  const MutexLock lock(state_->mutex);
  state_->control_denied = std::move(why);
}

std::vector<FakeWrite> FakeFleet::writes() const {
  const MutexLock lock(state_->mutex);
  return {state_->writes.begin(), state_->writes.end()};
}

}  // namespace gpuyard::fakes
