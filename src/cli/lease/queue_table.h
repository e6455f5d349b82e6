// Who waits for GPUs, who uses some without asking, and which are not handed out.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "protocol/leases.h"

namespace gpuyard::cli {

std::string queue_text(const protocol::Queue&, WallTime now, const Screen&);

// One sentence for each GPU that is not handed out.
std::string withheld_text(const std::vector<protocol::Withheld>&, WallTime now);

}  // namespace gpuyard::cli
