// From argv to a verb.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"

namespace gpuyard::cli {

// Returns a verb to run, or the exit code after printing help or an error. Without words, prints
// the help.
std::variant<Verb, int> parse_command_line(int argc, const char* const* argv);

// The daemon that the user means, from the words of the command line.
struct DaemonSelection {
  std::vector<std::string> hosts;  // each value of -H
  std::vector<std::string> words;  // all, without the program's own name
  Environment environment;
};

// Puts the daemon that -H or GPUYARD_HOST names into the verb, where --socket would. Errors say
// what to run instead: Errc::invalid if the verb can not be of another machine, if two options name
// two daemons, or if a host is no host; not_found if hosts.toml does not have its name.
Result<void> select_daemon(Verb&, const DaemonSelection&);

// The program's version, from CMakeLists.txt.
inline constexpr std::string_view kVersion = GPUYARD_VERSION;

}  // namespace gpuyard::cli
