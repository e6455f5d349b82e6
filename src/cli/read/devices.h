// The table of GPUs.
#pragma once

#include <string>

#include "cli/screen/screen.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

// The probes that fill the table.
extern const ProbeSet kTableProbes;

// "-" stands for every missing reading; the lines below the table say why a GPU is not well. A
// narrow screen drops columns in this order: UUIDs, PCI addresses, bars, clocks, throttle reasons,
// processes, power, why it is slow, names.
Printable device_table(const protocol::Snapshot&, const Screen& = Screen::of_stdout());

// Returns the lines below a table: which GPUs are not well, and why.
Printable device_notes(const protocol::Snapshot&, const Screen&);

}  // namespace gpuyard::cli
