// The table of GPUs that people read.
#pragma once

#include <string>

#include "cli/screen/terminal.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// What the table shows is filled by these.
extern const ProbeSet kTableProbes;

// "-" stands for every missing reading; why a GPU is not well is in the lines below the table. On a
// narrow screen these go, in this order: the UUIDs, PCI addresses, bars, clocks, throttle reasons,
// processes, power, names.
std::string device_table(const protocol::Snapshot&, const Screen& = Screen::of_stdout());

// The lines below a table: which GPUs are not well, and why.
std::string device_notes(const protocol::Snapshot&, const Screen&);

}  // namespace gpuyard::cli
