// How bad things are, as numbers from 0 to 100: the one place of these formulas, for whoever raises
// alerts. Knows no GPU and no rule.
#pragma once

#include <boost/describe/enum.hpp>

#include "gpuyard/andon.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(AlertLevel, info, warning, error, critical)

namespace andon {

// Whatever the numbers are, also infinite ones and NaN, the answer is within 0 and 100 and rises
// with the first of them.
int thermal_severity(double celsius, double threshold);
int memory_severity(double used_percent);
int power_severity(double percent_of_limit);
int idle_severity(double idle_secs, double timeout_secs);

AlertLevel level_of(int severity);

}  // namespace andon
}  // namespace gpuyard
