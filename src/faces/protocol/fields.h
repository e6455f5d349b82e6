// Header fields of responses that the daemon and its clients share.
#pragma once

#include <string_view>

namespace gpuyard::protocol {

// Marks a 503 from a daemon that is reading its stored state: nothing was done, and the client may
// retry.
inline constexpr std::string_view kReadingField = "X-Gpuyard-Reading";

}  // namespace gpuyard::protocol
