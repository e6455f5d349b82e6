// The data that the output formats of nvidia-smi show, and the functions that they share: missing
// values, the driver version, the time.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/read/processes.h"
#include "cli/read/query_csv.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

struct SmiReport {
  QueryInput queried;       // the GPUs that are shown, and how many there are
  ProcessAnswer processes;  // on these GPUs
  WallTime at;
};

// "Tue Jul 14 08:12:38 2026", in local time.
std::string smi_time(WallTime);

// Returns the number before the first dot: 535. 0: the version is not known.
int driver_branch(const protocol::Snapshot&);

// Returns a cell of the CSV as the other forms have it: "N/A", "GPU is lost".
std::string without_brackets(std::string cell);

// "C", "G" or "C+G".
std::string_view smi_process_type(ProcessKind);

}  // namespace gpuyard::cli
