// The program. Two hidden verbs are children that the program starts itself; they come before the
// command line is parsed, because they start often and take no words from people.
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "driver/host.h"
#include "library/nvml_source.h"
#include "sim/run_keeper.h"
#include "sim/world_directory.h"

namespace {

using namespace gpuyard;

[[noreturn]] void driver_host(const std::vector<std::string>& words) {
  const std::string nvml = words.size() == 2 && words[0] == "--nvml" ? words[1] : "";
  const auto choice = library::choose_nvml(nvml, sim::simulated_nvml_path());
  driver::run_host_process([&] { return library::open_nvml(choice); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "driver-host") driver_host({argv + 2, argv + argc});
  if (verb == "sim-keeper") {
    const std::vector<std::string> words(argv + 2, argv + argc);
    return sim::keeper_main(words);
  }
  const auto parsed = cli::parse_command_line(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  return std::visit([](const auto& chosen) { return cli::run(chosen); },
                    std::get<cli::Verb>(parsed));
}
