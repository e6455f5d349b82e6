// From argv to a verb.
#pragma once

#include <string_view>
#include <variant>

#include "cli/verbs.h"

namespace gpuyard::cli {

// Returns a verb to run, or the exit code after printing help or a usage error.
std::variant<Verb, int> parse_command_line(int argc, const char* const* argv);

// The program's version, from CMakeLists.txt.

inline constexpr std::string_view kVersion = GPUYARD_VERSION;

}  // namespace gpuyard::cli
