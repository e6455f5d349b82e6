// The pages of the manual, in mdoc(7), from the words of the command line and the table of
// configuration keys: gpuyard(1), a page for each verb, gpuyard.toml(5).
#pragma once

#include <string>
#include <vector>

#include "cli/completion.h"

namespace gpuyard::cli {

struct ManualPage {
  std::string file;  // "gpuyard-lease.1"
  std::string text;
};

// The date of the pages is today, or that of SOURCE_DATE_EPOCH, so that a package built twice is
// the same.
std::vector<ManualPage> manual_of(const CompletableVerb& program);

}  // namespace gpuyard::cli
