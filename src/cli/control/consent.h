// Asking somebody at the terminal before something is changed.
#pragma once

#include <string_view>

namespace gpuyard::cli {

// Whether somebody would see the question and could answer it: stdin and stderr are a terminal.
bool can_be_asked();

// "Change it? [y/N] " on stderr, and a line from stdin. Anything but yes is no, and so is the end
// of the input.
bool consents(std::string_view question);

}  // namespace gpuyard::cli
