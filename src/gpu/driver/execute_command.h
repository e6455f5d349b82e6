// Carries out one command, from its checks to its reply: reads the setting before the change,
// and reads it back afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "gpu/device/backend.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"

namespace gpuyard::driver {

// May refuse a change, right before the driver is called. Gets the state before; none: counters are
// cleared.
using AdmissionCheck = std::function<Result<void>(const std::optional<SettingState>&)>;

// Blocks as the driver does. A write is checked right before the driver is called: permission,
// support, range, and the expected present value; last, by `admit`, if there is one. Thread: the
// GPU's own for commands.
CommandReply execute_command(Backend&, const CommandRequest&, const AdmissionCheck& admit = {});

// Makes the reply to a command whose turn never came.
CommandReply refused_reply(const CommandRequest&, const Error&);

// Logs a command that reached the driver, in one line: at INFO if it succeeded, at WARNING if not.
// The line has the time since the request
// came, and how much of it the command waited for its turn. Logs nothing for a command that
// was refused before the driver was called, or that reads a setting.
void log_command(std::uint32_t index, const CommandRequest&, const CommandReply&);

}  // namespace gpuyard::driver
