// The texts of commands and options, from which help, completion and manual are generated, and the
// formatter of --help.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/screen/printable.h"

namespace gpuyard::cli {

// The heading of options that many verbs take. Only the program's own help describes them.
inline constexpr const char* kGlobalOptions = "Global options";

struct OptionText {
  std::vector<std::string> names = {};  // "-n", "--num-gpus"; an argument may have none
  std::string help = {};
  std::string metavar = {};  // "FILE"; empty: a flag
  std::string default_value = {};
  std::string environment = {};
  std::string details = {};
  std::string heading = {};
  std::vector<std::string> former = {};  // names that are accepted, but never shown
  bool argument = false;
  bool required = false;
  bool repeated = false;  // an argument that takes several words
  bool command = false;   // another program's command, which stands behind --
  bool shown = true;
};

struct Example {
  std::string command;
  std::string remark;
};

struct VerbText {
  std::string name;
  std::string help = {};
  std::vector<OptionText> options = {};  // and arguments
  std::vector<VerbText> verbs = {};
  bool needs_verb = false;
  std::string heading = {};  // in the list of its parent's help
  std::string explanation = {};
  std::vector<std::string> usage = {};  // empty: derived; a remark stands behind a tab
  std::vector<Example> examples = {};
  std::string exit_codes = {};
  std::vector<std::string> former = {};
};

// The option's help, then its default, its environment variable, and whether it is required.
std::string text_of(const OptionText&);
// "-n, --num-gpus N", "[--gpu] GPU,..."
std::string names_of(const OptionText&);
// The lines that follow "Usage: ". `path` is the verb with those above it, "gpuyard lease take".
std::vector<std::string> usage_of(const VerbText&, std::string_view path);

// Returns the options under kGlobalOptions of the program and its verbs, each name once.
std::vector<OptionText> global_options(const VerbText& program);

// Returns the help of the verb that `path` leads to from the program: none for the program's own.
// Wraps its lines at `columns`.
Printable help_of(const VerbText& program, const std::vector<std::string>& path,
                  std::size_t columns);

}  // namespace gpuyard::cli
