// The program. Two hidden verbs are children that the program starts itself; they come before the
// command line is parsed, because they take no words from people.
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "library/driver_host.h"
#include "sim/run_keeper.h"
#include "sim/world_directory.h"

int main(int argc, char** argv) {
  using namespace gpuyard;
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const std::vector<std::string> words(argv + (argc > 1 ? 2 : argc), argv + argc);
  if (verb == "driver-host") library::run_driver_host(words, sim::simulated_nvml_path());
  if (verb == "sim-keeper") return sim::keeper_main(words);
  const auto parsed = cli::parse_command_line(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  return std::visit([](const auto& chosen) { return cli::run(chosen); },
                    std::get<cli::Verb>(parsed));
}
