// Who has which GPUs, and what was used, as tables.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/screen/terminal.h"
#include "protocol/leases.h"

namespace gpuyard::cli {

// A row for each lease. What it says of time is as of `now`.
std::string lease_table(const protocol::Leases&, WallTime now, const Screen&);

// One lease in full, a line for each thing that is known.
std::string lease_page(const protocol::Lease&, WallTime now);

std::string usage_table(const protocol::Usage&, const Screen&);

// Who waits for GPUs, who uses some without asking, and which are not handed out.

std::string queue_text(const protocol::Queue&, WallTime now, const Screen&);

// One sentence for each GPU that is not handed out.
std::string withheld_text(const std::vector<protocol::Withheld>&, WallTime now);

}  // namespace gpuyard::cli
