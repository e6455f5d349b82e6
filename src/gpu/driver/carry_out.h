// One command from its checks to its answer: what is looked at before the driver is asked to change
// something, and what is read back after.
#pragma once

#include <cstdint>

#include "device/backend.h"
#include "device/setting.h"

namespace gpuyard::driver {

// On the GPU's commanding thread; blocks as the driver does. What writes is checked right before
// the driver is asked: permission, support, range, and what is expected to be there.
CommandReply carry_out(Backend&, const CommandRequest&);

// The answer to a command whose turn never came.
CommandReply refusal(const CommandRequest&, const Error&);

// The one line that the log has of every command which the driver was asked to carry out.

// INFO if it is done, WARNING if not; with how long it took since the request came, and how long of
// that it had waited for its turn. Nothing of a command that was refused before the driver was
// asked, and of one that only looks.
void log_command(std::uint32_t index, const CommandRequest&, const CommandReply&);

}  // namespace gpuyard::driver
