// The public Result (a value or an Error) under the name that the program uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe/enum.hpp>

#include "gpuyard/error.h"

namespace gpuyard {

BOOST_DESCRIBE_ENUM(Errc, unsupported, not_found, denied, conflict, invalid, busy, unavailable,
                    device_lost, timed_out, internal)

// Converts a code from another process, a number in the order above; an unknown number is
// `internal`.
Errc errc_from_number(std::uint32_t);

// The only table from Errc to HTTP status and exit code.
int http_status_of(Errc);
int exit_code_of(Errc);

}  // namespace gpuyard
