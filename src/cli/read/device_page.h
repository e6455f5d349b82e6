// The full picture of one GPU, in groups, for people.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/screen/terminal.h"
#include "device/metric.h"
#include "protocol/resources.h"

namespace gpuyard::cli {

// What is missing is one line at the end for each reason.
std::string device_page(const protocol::Snapshot&, const protocol::Device&, const Screen&);

// In which groups the rows of a device are shown.

// Every row of the catalog that a device can have stands in one group.
struct Group {
  std::string_view title;
  std::string_view prefix;  // of the rows' keys, not said again in each line
  std::span<const Metric> metrics;
};
std::span<const Group> groups();

}  // namespace gpuyard::cli
