// The tree of the command line's words, and what is made of it for a shell: scripts for completion.
// The manual is made of it too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli {

struct CompletableOption {
  std::vector<std::string> names;  // "--json", "-i"; of a positional its name alone
  std::string help;
  std::string value = {};  // "FILE"; empty: a flag
  bool required = false;
  bool repeated = false;  // a positional that takes several words
};

struct CompletableVerb {
  std::string name;
  std::string help;
  std::vector<CompletableOption> options;
  std::vector<CompletableVerb> verbs;
  std::vector<CompletableOption> positionals = {};
  std::string heading = {};  // that of --help
};

enum class Shell { none, bash, zsh, fish };

// For the program `root`.
std::string completion_script(Shell, const CompletableVerb& root);

}  // namespace gpuyard::cli
