// One command for one GPU and its result: the messages between the code that controls and the code
// that may call the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard {

// Reads a setting from the driver. Changes nothing.
struct ReadSetting {
  SettingKind kind{};
};
BOOST_DESCRIBE_STRUCT(ReadSetting, (), (kind))

struct Apply {
  Setting setting;
  // If not empty, the setting is written only if its value now is one of these; otherwise
  // Errc::conflict. Has no effect for a setting that cannot be read back.
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

using Command = std::variant<ReadSetting, Apply, ClearEcc, ReadEnergy>;

// False: the command only reads.
inline bool is_change(const Command& command) {
  return std::holds_alternative<Apply>(command) || std::holds_alternative<ClearEcc>(command);
}

struct CommandRequest {
  std::uint64_t id = 0;  // chosen by the requester, returned with the reply
  DeviceId device;
  Command command;
  std::string request_id;  // names the original request in logs
  TimePoint received;      // when the original request came
  // Restores an earlier value, or repeats one that was accepted: waits where a new change is
  // refused.
  bool puts_back = false;
};
BOOST_DESCRIBE_STRUCT(CommandRequest, (), (id, device, command, request_id, received, puts_back))

BOOST_DESCRIBE_STRUCT(Error, (), (code, message))

struct CommandReply {
  std::uint64_t id = 0;
  DeviceId device;
  std::optional<Error> failure;           // none: done; its message is the whole text
  std::optional<SettingState> before;     // ReadSetting, and Apply if the setting could be read
  std::optional<SettingState> after;      // Apply, if a value was written
  std::optional<std::int64_t> energy_mj;  // ReadEnergy: since the driver was loaded
  bool called = false;                    // a change or a read of the energy reached the driver
  TimePoint began;                        // when the command's turn came
  TimePoint done;
  // False: its process went down meanwhile, and the value may have been written or not. Not part of
  // the messages.
  bool outcome_known = true;
};
BOOST_DESCRIBE_STRUCT(CommandReply, (),
                      (id, device, failure, before, after, energy_mj, called, began, done))

}  // namespace gpuyard
