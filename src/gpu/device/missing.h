// Why there is no value: the public type, described for JSON and the driver-host's messages.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "gpuyard/missing.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(MissingReason, not_supported, no_permission, device_lost, driver_gone,
                    timed_out, not_ready, failed)
BOOST_DESCRIBE_STRUCT(Missing, (), (reason, detail))

}  // namespace gpuyard
