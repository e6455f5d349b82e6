#include "protocol/control.h"

#include <array>

#include <fmt/format.h>

namespace gpuyard::protocol {
namespace {

struct NamedMode {
  std::int64_t mode;
  std::string_view name;
};
constexpr std::array kComputeModes = {NamedMode{0, "default"}, NamedMode{2, "prohibited"},
                                      NamedMode{3, "exclusive_process"}};

}  // namespace

Result<Setting> setting_of(const ComputeModeWish& wish) {
  for (const NamedMode& known : kComputeModes) {
    if (known.name == wish.compute_mode) return compute_mode(known.mode);
  }
  return Error{Errc::invalid, fmt::format("/compute_mode: can be \"default\", \"prohibited\" or "
                                          "\"exclusive_process\", not \"{}\"",
                                          wish.compute_mode)};
}

SettingView view_of(const Setting& setting) {
  SettingView view;
  view.text = text_of(setting);
  if (!setting.value) return view;
  const auto [lowest, highest] = *setting.value;
  switch (setting.kind) {
    case SettingKind::power_limit:
      view.power_limit_mw = lowest;
      break;
    case SettingKind::gpu_clocks:
    case SettingKind::memory_clocks:
      view.min_clock_mhz = lowest;
      view.max_clock_mhz = highest;
      break;
    case SettingKind::persistence:
    case SettingKind::ecc:
      view.enabled = lowest != 0;
      break;
    case SettingKind::compute_mode:
      for (const NamedMode& known : kComputeModes) {
        if (known.mode == lowest) view.compute_mode = known.name;
      }
      break;
  }
  return view;
}

}  // namespace gpuyard::protocol
