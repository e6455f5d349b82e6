// The one line that the log has of every command which the driver was asked to carry out.
#pragma once

#include <cstdint>

#include "device/command.h"

namespace gpuyard::driver {

// INFO if it is done, WARNING if not; with how long it took since the request came, and how long of
// that it had waited for its turn. Nothing of a command that was refused before the driver was
// asked, and of one that only looks.
void log_command(std::uint32_t index, const CommandRequest&, const CommandReply&);

}  // namespace gpuyard::driver
