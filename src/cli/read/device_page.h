// The full picture of one GPU, in groups, for people.
#pragma once

#include <string>

#include "cli/screen/screen.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// What is missing is one line at the end for each reason.
std::string device_page(const protocol::Snapshot&, const protocol::Device&, const Screen&);

}  // namespace gpuyard::cli
