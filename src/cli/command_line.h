// From argv to a verb.
#pragma once

#include <string_view>
#include <variant>

#include "cli/verbs.h"

namespace gpuyard::cli {

// A verb to run, or the exit code after help or a usage error was printed.
std::variant<Verb, int> parse_command_line(int argc, const char* const* argv);

// The version of the program, as CMakeLists.txt says it.

inline constexpr std::string_view kVersion = GPUYARD_VERSION;

}  // namespace gpuyard::cli
