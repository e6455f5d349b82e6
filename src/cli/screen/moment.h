// Times of the API as people say them.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"

namespace gpuyard::cli {

// "14:05" of "2026-01-31T13:05:12.250Z", in local time; with its date where that is not today's.
// What is no such time is as it was.
std::string local_moment(std::string_view rfc3339, WallTime now);

}  // namespace gpuyard::cli
