// gpuyard version
#include "cli/version.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/options.h"
#include "cli/read/answers.h"
#include "cli/screen/terminal.h"
#include "cli/verbs.h"

namespace gpuyard::cli {

Options add_version(Options program, VersionVerb& verb) {
  const Options version = program.verb("version", "Show the version of gpuyard");
  version.flag("--json", verb.json, "Print JSON");
  return version;
}

int run(const VersionVerb& verb) {
  print(verb.json ? json::to_json(VersionAnswer{}) + "\n" : fmt::format("gpuyard {}\n", kVersion));
  return 0;
}

}  // namespace gpuyard::cli
