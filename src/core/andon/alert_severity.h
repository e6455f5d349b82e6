// The severity of alerts, from 0 to 100. This is the one place of its formulas. Knows no GPU and no
// rule.
#pragma once

#include <boost/describe/enum.hpp>

#include "gpuyard/andon.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(AlertLevel, info, warning, error, critical)

namespace andon {

// For all numbers, infinities and NaN included, the result is between 0 and 100 and rises with the
// first argument.
int thermal_severity(double celsius, double threshold);
int memory_severity(double used_percent);
int power_severity(double percent_of_limit);
int idle_severity(double idle_secs, double timeout_secs);

AlertLevel level_of(int severity);

}  // namespace andon
}  // namespace gpuyard
