// gpuyard version
#include "cli/version.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/answers.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

int run(const VersionVerb& verb) {
  print(verb.json ? json::to_json(VersionAnswer{}) + "\n" : fmt::format("gpuyard {}\n", kVersion));
  return 0;
}

}  // namespace gpuyard::cli
