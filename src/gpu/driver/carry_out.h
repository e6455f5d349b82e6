// One command from its checks to its answer: what is looked at before the driver is asked to change
// something, and what is read back after.
#pragma once

#include "device/backend.h"

namespace gpuyard::driver {

// On the GPU's commanding thread; blocks as the driver does. What writes is checked right before
// the driver is asked: permission, support, range, and what is expected to be there.
CommandReply carry_out(Backend&, const CommandRequest&);

// The answer to a command whose turn never came.
CommandReply refusal(const CommandRequest&, const Error&);

}  // namespace gpuyard::driver
