// A value or an Error: the public Result, by the name under which the house knows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe/enum.hpp>

#include "gpuyard/error.h"

namespace gpuyard {

// The public Error and its codes, and where they leave the program. Knows no GPU.

BOOST_DESCRIBE_ENUM(Errc, unsupported, not_found, denied, conflict, invalid, busy, unavailable,
                    device_lost, timed_out, internal)

// A code as another process told it, in the order above; a number that is none is `internal`.
Errc errc_from_number(std::uint32_t);

// The one table from Errc to the two places where it leaves the program.
int http_status_of(Errc);
int exit_code_of(Errc);

}  // namespace gpuyard
