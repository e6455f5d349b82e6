// The tree of the command line's words, and what is made of it: scripts for a shell's completion,
// and the manual.
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

struct ManualPage {
  std::string file;  // "gpuyard-lease.1"
  std::string text;
};

// The pages of the manual, in mdoc(7): gpuyard(1), one for each verb, and gpuyard.toml(5) from the
// table of configuration keys. Their date is today, or that of SOURCE_DATE_EPOCH, so that a package
// built twice is the same.
std::vector<ManualPage> manual_of(const CompletableVerb& program);

}  // namespace gpuyard::cli
