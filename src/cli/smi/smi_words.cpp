#include "cli/smi/smi_words.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "sim/world_file.h"

namespace gpuyard::cli {
namespace {

constexpr std::string_view kSmi = "nvidia-smi";
// Options of ours, which stand before the words of nvidia-smi.
constexpr const char* kNvidiaExitCodes = "--nvidia-exit-codes";
constexpr const char* kLocal = "--local";

// A word of nvidia-smi that `smi` refuses.
struct Refusal {
  std::string_view words;   // with blanks between them
  std::string_view advice;  // the command of ours; empty: there is none
};

// Options that change a GPU.
constexpr std::array kSmiChanges = {
    Refusal{"-pm --persistence-mode", "gpuyard persistence 0 on"},
    Refusal{"-e --ecc-config", "gpuyard ecc 0 on"},
    Refusal{"-p --reset-ecc-errors", "gpuyard ecc 0 --clear volatile"},
    Refusal{"-c --compute-mode", "gpuyard compute-mode 0 exclusive_process"},
    Refusal{"-r --gpu-reset", "gpuyard reset 0"},
    Refusal{"-lgc --lock-gpu-clocks -ac --applications-clocks -m --mode",
            "gpuyard clocks 0 --gpu-clocks 1200,1500"},
    Refusal{"-rgc --reset-gpu-clocks", "gpuyard clocks 0 --restore gpu"},
    Refusal{"-lmc --lock-memory-clocks -lmcd --lock-memory-clocks-deferred",
            "gpuyard clocks 0 --memory-clocks 2619"},
    Refusal{"-rmc --reset-memory-clocks -rmcd --reset-memory-clocks-deferred",
            "gpuyard clocks 0 --restore memory"},
    Refusal{"-rac --reset-applications-clocks", "gpuyard clocks 0 --restore all"},
    Refusal{"-pl --power-limit -sc --scope", "gpuyard power 0 300"},
    Refusal{"-am --accounting-mode -caa --clear-accounted-apps -cc --cuda-clocks --gom "
            "-vm --virt-mode -mig --multi-instance-gpu -gtt --gpu-target-temp "
            "-den --dram-encryption -acp --applications-clocks-permission --auto-boost-default "
            "--auto-boost-permission -dm --driver-model -fdm --force-driver-model --set-hostname "
            "-t --toggle-led",
            ""},
};

// Options that show what `smi` does not.
constexpr std::array kSmiNotShown = {
    Refusal{"--query-accounted-apps --help-query-accounted-apps",
            "gpuyard processes --since 2h  # needs a daemon"},
    Refusal{"--query-retired-pages --help-query-retired-pages",
            "gpuyard query --fields retired_pages.sbe,retired_pages.dbe"},
    Refusal{"--query-supported-clocks --help-query-supported-clocks", "gpuyard clocks"},
    Refusal{"-B --list-excluded-gpus -u --unit --dtd -col --columns --debug --get-hostname "
            "-eow --error-on-warning",
            ""},
};

// Commands, which nvidia-smi takes as its first word.
constexpr std::array kSmiCommands = {
    Refusal{"dmon", "gpuyard watch"},
    Refusal{"pmon", "gpuyard processes"},
    Refusal{"daemon replay", "gpuyard record yard.rec"},
    Refusal{"nvlink topo pci", "gpuyard devices 0"},
    Refusal{"clocks base-clocks", "gpuyard clocks"},
    Refusal{"drain", "gpuyard cordon 0 --reason maintenance"},
    Refusal{"gpm", "gpuyard query --fields gpm_sm_percent,gpm_tensor_percent"},
    Refusal{"mig vgpu c2c compute-policy boost-slider power-hint conf-compute encodersessions "
            "fbcsessions power-smoothing power-profiles rusd prm soc",
            ""},
};

template <class Table>
const Refusal* find_refusal(const Table& table, std::string_view word) {
  const auto found = std::ranges::find_if(table, [&](const Refusal& one) {
    std::string_view rest = one.words;
    while (!rest.empty()) {
      if (take_until(' ', rest) == word) return true;
    }
    return false;
  });
  return found != table.end() ? &*found : nullptr;
}

Error refusal_error(std::string_view word, std::string_view why, const Refusal& refusal) {
  return {Errc::unsupported, fmt::format("{}: {}", printable(word), why), "",
          std::string(refusal.advice)};
}

Result<void> check_word(std::string_view word, bool first) {
  if (!word.starts_with('-')) {
    const Refusal* const command = first ? find_refusal(kSmiCommands, word) : nullptr;
    if (command == nullptr) return {};
    return refusal_error(word, "this command of nvidia-smi is not available", *command);
  }
  const std::string_view name = word.substr(0, word.find('='));
  if (const Refusal* const change = find_refusal(kSmiChanges, name)) {
    return refusal_error(name, "this option of nvidia-smi changes a GPU, and smi only reads",
                         *change);
  }
  if (const Refusal* const view = find_refusal(kSmiNotShown, name)) {
    return refusal_error(name, "this option of nvidia-smi is not available", *view);
  }
  return {};
}

// nvidia-smi takes -i=0, and -l without a number.
void add_in_our_spelling(std::vector<std::string>& out, const std::string& word,
                         std::string_view next) {
  constexpr std::string_view kDefaultLoop = "5";  // seconds
  const std::size_t end = word.find('=');
  std::string name = word.substr(0, end);
  const bool is_long = name.starts_with("--");
  if (name == "-lms") name = "--loop-ms";
  if (name == "-a") name = "-q";
  if (end != word.npos && is_long) {
    out.push_back(name + word.substr(end));
  } else {
    out.push_back(name);
    if (end != word.npos) out.push_back(word.substr(end + 1));
  }
  const bool without_value = end == word.npos && (next.empty() || next.starts_with('-'));
  if (without_value && (name == "-l" || name == "--loop")) out.emplace_back(kDefaultLoop);
}

// The directory of the link by which the program was called; empty: it was not found.
std::string link_directory(const std::string& program) {
  if (program.find('/') != program.npos) return parent_directory(program);
  for (const std::string& folder : program_folders()) {
    if (::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return folder;
  }
  return "";
}

// Returns the world that a link in this directory is of; empty: it is of none.
std::string world_of_link(const std::string& directory) {
  if (directory.empty()) return "";
  std::error_code failed;
  if (std::filesystem::exists(directory + "/" + sim::kStateFile, failed)) {
    return std::filesystem::absolute(directory, failed).string();
  }
  const bool beside_library = std::filesystem::exists(sim::stripped_nvml_path(directory), failed);
  return beside_library ? sim::default_world_directory() : "";
}

}  // namespace

Result<std::vector<std::string>> smi_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool first = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    GPUYARD_TRY(check_word(words[i], first));
    first = first && (words[i] == kNvidiaExitCodes || words[i] == kLocal);
    if (words[i].starts_with('-')) {
      add_in_our_spelling(out, words[i], i + 1 < words.size() ? words[i + 1] : "");
    } else {
      out.push_back(words[i]);
    }
  }
  return out;
}

bool is_nvidia_smi(std::string_view program) {
  return program.substr(program.rfind('/') + 1) == kSmi;
}

std::vector<std::string> words_as_nvidia_smi(const std::string& program,
                                             const std::vector<std::string>& words) {
  constexpr const char* kWorld = "GPUYARD_SIM_WORLD";
  std::vector<std::string> out = {"smi", kNvidiaExitCodes};
  if (environment_variable(kWorld).empty()) {
    const std::string world = world_of_link(link_directory(program));
    if (!world.empty()) ::setenv(kWorld, world.c_str(), 1);
  }
  if (!environment_variable(kWorld).empty()) out.emplace_back(kLocal);
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

}  // namespace gpuyard::cli
