// The table that nvidia-smi prints without an argument, in the widths of the driver's version.
#pragma once

#include "cli/smi/smi_report.h"

namespace gpuyard::cli {

Printable smi_table(const SmiReport&);

// Returns the probes that fill the table.
ProbeSet smi_table_probes();

}  // namespace gpuyard::cli
