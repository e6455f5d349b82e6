// The settings of a GPU: their values (gpuyard/setting.h) and what a driver allows. Pure values and
// their texts; src/core/control handles who asks for which setting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/describe.hpp>

#include "base/result.h"
#include "gpuyard/setting.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(SettingKind, power_limit, gpu_clocks, memory_clocks, persistence, compute_mode,
                    ecc)

BOOST_DESCRIBE_STRUCT(SettingValue, (), (lowest, highest))
BOOST_DESCRIBE_STRUCT(SettingState, (), (now, by_default, allowed, until_reset))

struct Setting {
  SettingKind kind{};
  std::optional<SettingValue> value;  // none: clocks are not locked

  friend bool operator==(const Setting&, const Setting&) = default;
};
BOOST_DESCRIBE_STRUCT(Setting, (), (kind, value))

Setting power_limit(std::int64_t milliwatts);
Setting gpu_clocks(std::int64_t lowest_mhz, std::int64_t highest_mhz);
Setting memory_clocks(std::int64_t lowest_mhz, std::int64_t highest_mhz);
Setting unlocked(SettingKind clocks);
Setting persistence(bool enabled);
Setting compute_mode(std::int64_t mode);
Setting ecc(bool enabled);

// NVML has setters for locked clocks and no getter, so the value in force can only be assumed.
constexpr bool can_be_read(SettingKind kind) {
  return kind != SettingKind::gpu_clocks && kind != SettingKind::memory_clocks;
}

// Errc::invalid, with the allowed values, if the value is out of range, the lowest is above the
// highest, or the value is not of this kind.
Result<void> check_setting(const Setting&, const SettingState&);

// "power limit", "GPU clocks", ...
std::string_view display_name(SettingKind);
// "300 W", "[1200, 1500] MHz", "not locked", "on", "exclusive process"
std::string text_of(const Setting&);
// "100 W to 700 W"
std::string range_text(SettingKind, const SettingValue& allowed);

}  // namespace gpuyard
