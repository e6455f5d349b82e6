// The words of strangers where people read them: on a terminal, in the log.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard {

// With a '?' in the place of each control character, also those of two bytes (C1), of what turns
// the direction of writing or breaks a line unseen, and of each byte that is no UTF-8: an escape
// sequence in the name of a process must not reach a terminal, nor a line end the log.
std::string printable(std::string_view text);

}  // namespace gpuyard
