// The program. Five hidden verbs are for children that the program starts itself. They come before
// the command line is parsed, because they take no words from users.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_host.h"
#include "cli/command_line.h"
#include "cli/screen/output.h"
#include "cli/smi/smi_words.h"
#include "daemon/mark_link.h"
#include "daemon/setter_link.h"
#include "faces/client/ssh.h"
#include "faces/library/driver_source.h"
#include "sim/demo.h"
#include "sim/world_file.h"
#include "sim/world_server_main.h"

namespace {

using namespace gpuyard;

// Opens descriptors 0 to 2 if they are closed. Otherwise the next file to be opened would get the
// number, and the output.
void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // Writing to a closed stdout stays an error: the user may wait for the output.
    static_cast<void>(::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR));
  }
}

int run_verb(const std::variant<cli::Verb, int>& parsed) {
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  return std::visit([](const auto& chosen) { return cli::run(chosen); },
                    std::get<cli::Verb>(parsed));
}

// Called by the name of nvidia-smi, the program is that.
int run_as_nvidia_smi(const std::string& program, const std::vector<std::string>& words) {
  std::vector<const char*> line = {"gpuyard"};
  const auto translated = cli::words_as_nvidia_smi(program, words);
  for (const std::string& word : translated) line.push_back(word.c_str());
  return run_verb(cli::parse_command_line(static_cast<int>(line.size()), line.data()));
}

int run(int argc, char** argv) {
  if (argc > 0 && cli::is_nvidia_smi(argv[0])) {
    return run_as_nvidia_smi(argv[0], {argv + 1, argv + argc});
  }
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const std::vector<std::string> words(argv + (argc > 1 ? 2 : argc), argv + argc);
  if (verb == "driver-host") library::run_driver_host(words, sim::simulated_nvml_path());
  if (verb == "command-host") run_command_host();
  if (verb == daemon::kMarksVerb) daemon::run_marks(words);
  if (verb == "setter") {
    daemon::run_setter(words, sim::simulated_nvml_path(), std::string(cli::kVersion));
  }
  if (verb == "sim-keeper") return sim::world_server_main(words);
  if (verb == sim::kDemoVerb) return sim::demo_main(words);
  if (verb == client::kWithParent) return cli::run_with_parent(words);
  // The program without a verb shows the GPUs on a terminal. A script that forgot the verb gets an
  // error.
  const bool watched = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  const std::array<const char*, 2> top = {"gpuyard", "top"};
  return run_verb(argc == 1 && watched ? cli::parse_command_line(2, top.data())
                                       : cli::parse_command_line(argc, argv));
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    // A bug, no memory, or no descriptors left for the loop itself.
    return cli::print_error({Errc::internal, error.what()});
  }
}
