// The full picture of one GPU, in groups, for people.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/screen.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// Every row of the catalog that a device can have stands in one group.
struct Group {
  std::string_view title;
  std::string_view prefix;  // of the rows' keys, not said again in each line
  std::span<const Metric> metrics;
};
std::span<const Group> groups();

// What is missing is one line at the end for each reason. `local_pids`: the process ids are those
// of this machine, so that they can be named.
std::string device_page(const protocol::Snapshot&, const protocol::Device&, const Screen&,
                        bool local_pids);

}  // namespace gpuyard::cli
