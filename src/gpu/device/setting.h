// What should be: one thing of a GPU that can be set, its values (gpuyard/setting.h), and what a
// driver allows. Pure values and their words; who wants what is src/core/control's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
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

// NVML has setters for locked clocks and no getter: what is in force can only be assumed.
constexpr bool can_be_read(SettingKind kind) {
  return kind != SettingKind::gpu_clocks && kind != SettingKind::memory_clocks;
}

// Errc::invalid, with what would be allowed: out of range, the lowest above the highest, no value
// of this kind at all.
Result<void> check(const Setting&, const SettingState&);

// "power limit", "GPU clocks", ...
std::string_view words_of(SettingKind);
// "300 W", "[1200, 1500] MHz", "not locked", "on", "exclusive process"
std::string text_of(const Setting&);
// "100 W to 700 W"
std::string range_text(SettingKind, const SettingValue& allowed);

// One thing to do to one GPU, and how it ended: what crosses between whoever controls and whoever
// may call the driver.

// What the driver says of a setting now. Changes nothing.
struct Look {
  SettingKind kind{};
};
BOOST_DESCRIBE_STRUCT(Look, (), (kind))

struct Apply {
  Setting setting;
  // Not empty: only if the value now is one of these; else Errc::conflict, and nothing is written.
  // For what cannot be read back it means nothing.
  std::vector<SettingValue> expected = {};
};
BOOST_DESCRIBE_STRUCT(Apply, (), (setting, expected))

BOOST_DESCRIBE_ENUM(EccCounter, since_load, lifetime)

struct ClearEcc {
  EccCounter counter{};
};
BOOST_DESCRIBE_STRUCT(ClearEcc, (), (counter))

struct ReadEnergy {};
BOOST_DESCRIBE_STRUCT(ReadEnergy, (), ())

using Command = std::variant<Look, Apply, ClearEcc, ReadEnergy>;

struct CommandRequest {
  std::uint64_t id = 0;  // chosen by the asker, given back with the answer
  DeviceId device;
  Command command;
  std::string request_id;  // of the request that it is for, in logs
  TimePoint received;      // when that request came
};
BOOST_DESCRIBE_STRUCT(CommandRequest, (), (id, device, command, request_id, received))

struct CommandFailure {
  Errc code = Errc::internal;
  std::string message;

  Error error() const { return {code, message}; }
};
BOOST_DESCRIBE_STRUCT(CommandFailure, (), (code, message))

struct CommandReply {
  std::uint64_t id = 0;
  DeviceId device;
  std::optional<CommandFailure> failure;  // none: done
  std::optional<SettingState> before;     // Look, and Apply of what could be looked at
  std::optional<SettingState> after;      // Apply, if something was written
  std::optional<std::int64_t> energy_mj;  // ReadEnergy: since the driver was loaded
  bool called = false;                    // the driver was asked to do it, whatever it answered
  TimePoint began;                        // when the command's turn had come
  TimePoint done;
};
BOOST_DESCRIBE_STRUCT(CommandReply, (),
                      (id, device, failure, before, after, energy_mj, called, began, done))

}  // namespace gpuyard
