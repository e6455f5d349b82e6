// Header fields of an answer that both ends of the wire know.
#pragma once

#include <string_view>

namespace gpuyard::protocol {

// Of an answer 503 that was given because the daemon still reads what it has kept: nothing was
// done, and the request may be sent again.
inline constexpr std::string_view kReadingField = "X-Gpuyard-Reading";

}  // namespace gpuyard::protocol
