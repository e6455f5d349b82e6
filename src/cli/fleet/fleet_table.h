// The views of many machines as tables.
#pragma once

#include <string>

#include "base/clock.h"
#include "cli/screen/terminal.h"
#include "fleet/view.h"

namespace gpuyard::cli {

// A line a machine, those that did not answer included, and a last line about all.
std::string nodes_text(const fleet::FleetNodes&, const Screen&);
std::string gpus_text(const fleet::FleetGpus&, const Screen&);
std::string users_text(const fleet::FleetUsers&, const Screen&);
std::string offers_text(const fleet::FleetOffers&, const Screen&);
std::string queue_text(const fleet::FleetQueue&, WallTime now, const Screen&);
std::string alerts_text(const fleet::FleetAlerts&, WallTime now, const Screen&);
std::string diagnosis_text(const fleet::FleetDiagnosis&, const Screen&);

// "n7: ..." for each machine that did not answer, and for a second name of one that did.
std::string problems_text(const fleet::FleetAnswer&);
// "97 machines, 776 GPUs, 312 free, 41.2 kW; 3 did not answer"
std::string totals_text(const fleet::FleetNodes&);

}  // namespace gpuyard::cli
