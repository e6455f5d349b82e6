// What a test says of the settings of a fake fleet, and what its driver does with them.
#include "device/fake_fleet_state.h"
#include "device/missing.h"

namespace gpuyard::fakes {
namespace {

// The readings that show a setting, where the GPU has them.
std::vector<Metric> shown_by(SettingKind kind) {
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

std::vector<Metric> counted_by(EccCounter counter) {
  if (counter == EccCounter::lifetime) {
    return {Metric::ecc_corrected_aggregate, Metric::ecc_uncorrected_aggregate};
  }
  return {Metric::ecc_corrected_volatile, Metric::ecc_uncorrected_volatile};
}

template <class Values>
void show(Values& values, const std::vector<Metric>& metrics, std::int64_t value) {
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
  if (done && setting.value) show(values, shown_by(setting.kind), setting.value->lowest);
  return done;
}

Result<void> FakeFleet::State::Gpu::change(EccCounter counter) {
  if (!settings.look(SettingKind::ecc)) return Error{Errc::unsupported, "Not Supported"};
  show(values, counted_by(counter), 0);
  return {};
}

void FakeFleet::set_setting(std::uint32_t index, SettingKind kind, const SettingState& state) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.put(kind, state); });
}

void FakeFleet::set_unsupported(std::uint32_t index, SettingKind kind) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.forget(kind); });
}

void FakeFleet::set_setting_fails(std::uint32_t index, SettingKind kind, std::optional<Error> why) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.settings.fail_writes(kind, std::move(why)); });
}

void FakeFleet::deny_control(std::optional<Error> why) {
  const std::lock_guard lock(state_->mutex);
  state_->control_denied = std::move(why);
}

std::vector<FakeWrite> FakeFleet::writes() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->writes.begin(), state_->writes.end()};
}

}  // namespace gpuyard::fakes
