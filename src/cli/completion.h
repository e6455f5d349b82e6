// Scripts for a shell's completion of our command line, from a tree of its words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli {

struct CompletableOption {
  std::vector<std::string> names;  // "--json", "-i"
  std::string help;
  bool takes_value = false;
};

struct CompletableVerb {
  std::string name;
  std::string help;
  std::vector<CompletableOption> options;
  std::vector<CompletableVerb> verbs;
};

enum class Shell { bash, zsh, fish };

// For the program `root`.
std::string completion_script(Shell, const CompletableVerb& root);

}  // namespace gpuyard::cli
