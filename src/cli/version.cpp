// gpuyard version
#include "cli/version.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

int run(const VersionVerb& verb) {
  print(verb.json ? fmt::format("{{\"version\":\"{}\"}}\n", kVersion)
                  : fmt::format("gpuyard {}\n", kVersion));
  return 0;
}

}  // namespace gpuyard::cli
