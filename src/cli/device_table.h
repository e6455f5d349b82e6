// The table of GPUs that people read.
#pragma once

#include <string>

#include "protocol/resources.h"

namespace gpuyard::cli {

// "-" stands for every missing reading; why, is in the lines below the table.
std::string device_table(const protocol::Snapshot&);

}  // namespace gpuyard::cli
