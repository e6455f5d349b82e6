// One GPU in full, in groups, for people.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/screen/screen.h"
#include "faces/protocol/resources.h"
#include "gpu/device/metric.h"

namespace gpuyard::cli {

// Lists missing readings at the end, a line for each reason.
Printable device_page(const protocol::Snapshot&, const protocol::Device&, const Screen&);

// Every row of the catalog that a device can have is in one group.
struct Group {
  std::string_view title;
  std::string_view prefix;  // of the rows' keys, left out in each line
  std::vector<Metric> metrics;
};
const std::vector<Group>& groups();

}  // namespace gpuyard::cli
