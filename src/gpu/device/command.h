// One thing to do to one GPU, and how it ended: what crosses between whoever controls and whoever
// may call the driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "device/setting.h"

namespace gpuyard {

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
