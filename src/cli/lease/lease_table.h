// Leases, the queue and usage as tables.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/screen/screen.h"
#include "faces/protocol/leases.h"

namespace gpuyard::cli {

// Returns a row for each lease. Times are as of `now`.
Printable lease_table(const protocol::Leases&, WallTime now, const Screen&);

// One lease in full, a line for each thing that is known.
Printable lease_page(const protocol::Lease&, WallTime now);

Printable usage_table(const protocol::Usage&, const Screen&);
std::string hours_text(double hours);
// Uses smaller units for small values, so that they do not read as 0.
std::string kwh_text(double kwh);

// Whether the queue names the processes for which the GPU is withheld.
bool is_listed_as_unleased(const protocol::WithheldGpu&, const protocol::Queue&);
Printable queue_text(const protocol::Queue&, WallTime now, const Screen&);

// One sentence for each GPU that is withheld.
Printable withheld_text(const std::vector<protocol::WithheldGpu>&, WallTime now);

}  // namespace gpuyard::cli
