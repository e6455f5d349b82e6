// What should be: one thing of a GPU that can be set, its values, and what a driver allows. Pure
// values and their words; who wants what is src/control's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/describe.hpp>

#include "base/result.h"

namespace gpuyard {

// Each is set on its own, and has one value at a time.
enum class SettingKind : std::uint8_t {
  power_limit,    // milliwatts
  gpu_clocks,     // MHz, the lowest and the highest of the lock; or no lock
  memory_clocks,  // the same of the memory
  persistence,    // 0 or 1: the driver keeps the GPU initialised while nobody uses it
  compute_mode,   // NVML's number: 0 default, 2 prohibited, 3 exclusive process
  ecc,            // 0 or 1, from the next reset on
};
BOOST_DESCRIBE_ENUM(SettingKind, power_limit, gpu_clocks, memory_clocks, persistence, compute_mode,
                    ecc)

// The two are the same, but for clocks.
struct SettingValue {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;

  friend bool operator==(const SettingValue&, const SettingValue&) = default;
};
BOOST_DESCRIBE_STRUCT(SettingValue, (), (lowest, highest))

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

// NVML has setters for locked clocks and no getter: what is in force can only be assumed.
constexpr bool can_be_read(SettingKind kind) {
  return kind != SettingKind::gpu_clocks && kind != SettingKind::memory_clocks;
}

// What the driver says of one setting of one GPU at one moment.
struct SettingState {
  std::optional<SettingValue> now;         // none: it cannot be read back
  std::optional<SettingValue> by_default;  // what the driver itself would choose, if it says so
  std::optional<SettingValue> allowed;     // the least and the most, if it says so
  // Of ECC: what it is until the next reset; `now` is what was asked for last.
  std::optional<SettingValue> until_reset;

  friend bool operator==(const SettingState&, const SettingState&) = default;
};
BOOST_DESCRIBE_STRUCT(SettingState, (), (now, by_default, allowed, until_reset))

// Errc::invalid, with what would be allowed: out of range, the lowest above the highest, no value
// of this kind at all.
Result<void> check(const Setting&, const SettingState&);

// "power limit", "GPU clocks", ...
std::string_view words_of(SettingKind);
// "300 W", "[1200, 1500] MHz", "not locked", "on", "exclusive process"
std::string text_of(const Setting&);
// "100 W to 700 W"
std::string range_text(SettingKind, const SettingValue& allowed);

}  // namespace gpuyard
