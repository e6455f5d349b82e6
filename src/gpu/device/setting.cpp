#include "gpu/device/setting.h"

#include <array>

#include <fmt/format.h>

namespace gpuyard {
namespace {

constexpr std::int64_t kComputeModeProhibited = 2;
constexpr std::int64_t kComputeModeExclusiveProcess = 3;

Setting single_value_setting(SettingKind kind, std::int64_t value) {
  return {kind, SettingValue{value, value}};
}

bool is_clocks(SettingKind kind) {
  return kind == SettingKind::gpu_clocks || kind == SettingKind::memory_clocks;
}

std::string watts(std::int64_t milliwatts) {
  return milliwatts % 1000 == 0 ? fmt::format("{} W", milliwatts / 1000)
                                : fmt::format("{:.3f} W", static_cast<double>(milliwatts) / 1000);
}

std::string value_text(SettingKind kind, std::int64_t value) {
  switch (kind) {
    case SettingKind::power_limit:
      return watts(value);
    case SettingKind::gpu_clocks:
    case SettingKind::memory_clocks:
      return fmt::format("{} MHz", value);
    case SettingKind::persistence:
    case SettingKind::ecc:
      return value == 0 ? "off" : "on";
    case SettingKind::compute_mode:
      if (value == 0) return "default";
      if (value == kComputeModeProhibited) return "prohibited";
      if (value == kComputeModeExclusiveProcess) return "exclusive process";
      break;
  }
  return std::to_string(value);
}

// Refuses values that no GPU accepts, whatever range its driver reports.
Result<void> check_form(const Setting& setting) {
  const auto refuse = [&](std::string_view why) -> Result<void> {
    return Error{Errc::invalid, fmt::format("the {} {}", display_name(setting.kind), why)};
  };
  if (!setting.value) {
    return is_clocks(setting.kind) ? Result<void>() : refuse("need a value");
  }
  const auto [lowest, highest] = *setting.value;
  if (lowest != highest && !is_clocks(setting.kind)) return refuse("must be one value");
  switch (setting.kind) {
    case SettingKind::power_limit:
      return lowest > 0 ? Result<void>() : refuse("must be above 0 W");
    case SettingKind::gpu_clocks:
    case SettingKind::memory_clocks:
      if (lowest < 0) return refuse("cannot be negative");
      if (lowest > highest) {
        return refuse(
            fmt::format("have a minimum of {} MHz above their maximum of {} MHz", lowest, highest));
      }
      return {};
    case SettingKind::persistence:
    case SettingKind::ecc:
      return lowest == 0 || lowest == 1 ? Result<void>() : refuse("must be on or off");
    case SettingKind::compute_mode:
      break;
  }
  const bool known =
      lowest == 0 || lowest == kComputeModeProhibited || lowest == kComputeModeExclusiveProcess;
  return known ? Result<void>()
               : refuse("must be default, prohibited or exclusive process (0, 2 or 3)");
}

// Checks a value for which no driver reports a range; the driver's numbers have 32 bits.
Result<void> check_sane(const Setting& setting) {
  constexpr std::int64_t kMaxValue = 1'000'000'000;
  if (setting.value->highest <= kMaxValue) return {};
  return Error{Errc::invalid, fmt::format("{} is out of range for any {}", text_of(setting),
                                          display_name(setting.kind))};
}

}  // namespace

Setting power_limit(std::int64_t milliwatts) {
  return single_value_setting(SettingKind::power_limit, milliwatts);
}
Setting gpu_clocks(std::int64_t lowest_mhz, std::int64_t highest_mhz) {
  return {SettingKind::gpu_clocks, SettingValue{lowest_mhz, highest_mhz}};
}
Setting memory_clocks(std::int64_t lowest_mhz, std::int64_t highest_mhz) {
  return {SettingKind::memory_clocks, SettingValue{lowest_mhz, highest_mhz}};
}
Setting unlocked(SettingKind clocks) {
  return {clocks, std::nullopt};
}
Setting persistence(bool enabled) {
  return single_value_setting(SettingKind::persistence, enabled ? 1 : 0);
}
Setting compute_mode(std::int64_t mode) {
  return single_value_setting(SettingKind::compute_mode, mode);
}
Setting ecc(bool enabled) {
  return single_value_setting(SettingKind::ecc, enabled ? 1 : 0);
}

Result<void> check_setting(const Setting& setting, const SettingState& state) {
  if (auto formed = check_form(setting); !formed || !setting.value) return formed;
  if (!state.allowed) return check_sane(setting);
  const bool inside = setting.value->lowest >= state.allowed->lowest &&
                      setting.value->highest <= state.allowed->highest;
  if (inside) return {};
  return Error{Errc::invalid,
               fmt::format("{} is out of range: this GPU's {} may be {}", text_of(setting),
                           display_name(setting.kind), range_text(setting.kind, *state.allowed))};
}

std::string_view display_name(SettingKind kind) {
  constexpr std::array<std::string_view, 6> kWords = {
      "power limit", "GPU clocks", "memory clocks", "persistence mode", "compute mode", "ECC mode"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string text_of(const Setting& setting) {
  if (!setting.value) return "not locked";
  const auto [lowest, highest] = *setting.value;
  if (is_clocks(setting.kind)) return fmt::format("[{}, {}] MHz", lowest, highest);
  return value_text(setting.kind, lowest);
}

std::string range_text(SettingKind kind, const SettingValue& allowed) {
  return fmt::format("{} to {}", value_text(kind, allowed.lowest),
                     value_text(kind, allowed.highest));
}

}  // namespace gpuyard
