// In which groups the rows of a device are shown.
#pragma once

#include <span>
#include <string_view>

#include "device/metric.h"

namespace gpuyard::cli {

// Every row of the catalog that a device can have stands in one group.
struct Group {
  std::string_view title;
  std::string_view prefix;  // of the rows' keys, not said again in each line
  std::span<const Metric> metrics;
};
std::span<const Group> groups();

}  // namespace gpuyard::cli
