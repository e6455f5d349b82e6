// Shell completion scripts and manual pages, generated from the definitions in cli/help.h.
#pragma once

#include <string>
#include <vector>

#include "cli/help.h"

namespace gpuyard::cli {

enum class Shell { none, bash, zsh, fish };

// For the program `root`.
std::string completion_script(Shell, const VerbText& root);

struct ManualPage {
  std::string file;  // "gpuyard-lease.1"
  std::string text;
};

// The pages of the manual, in mdoc(7): gpuyard(1), one for each verb, and gpuyard.toml(5) from the
// table of configuration keys. Their date is today, or that of SOURCE_DATE_EPOCH, so that a package
// built twice is the same.
std::vector<ManualPage> manual_of(const VerbText& program);

}  // namespace gpuyard::cli
