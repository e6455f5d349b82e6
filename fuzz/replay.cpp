// Runs each fuzz target on every file of its corpus and on the empty input, without libFuzzer:
//
//   fuzz_replay CORPUS      CORPUS has a folder for each target
//
// Prints each file before its run, so that the last line names the input of a crash. Fails if a
// target has no file, or if a folder belongs to no target: it would otherwise pass without a proof.
#include "replay.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace gpuyard::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code missing;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, missing)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

void run_on(const Target& target, const std::string& input) {
  // A copy of the exact size: AddressSanitizer sees a read behind it.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  target.run(bytes.data(), bytes.size());
}

bool replay(const Target& target, const fs::path& corpus) {
  const auto files = entries_of(corpus / target.name);
  if (files.empty()) {
    std::printf("%s has no input in %s\n", target.name, corpus.c_str());
    return false;
  }
  run_on(target, {});
  for (const fs::path& path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::printf("%s cannot be read\n", path.c_str());
      return false;
    }
    run_on(target, std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::printf("%s: %zu inputs\n", target.name, files.size());
  return true;
}

bool has_target(const fs::path& folder) {
  return std::ranges::any_of(
      targets(), [&](const Target& target) { return folder.filename() == target.name; });
}

bool replay_all(const fs::path& corpus) {
  bool good = !targets().empty();
  for (const Target& target : targets()) good = replay(target, corpus) && good;
  for (const fs::path& folder : entries_of(corpus)) {
    if (has_target(folder)) continue;
    std::printf("%s is the corpus of no target\n", folder.c_str());
    good = false;
  }
  return good;
}

}  // namespace
}  // namespace gpuyard::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::printf("usage: fuzz_replay CORPUS\n");
    return 2;
  }
  return gpuyard::fuzz::replay_all(argv[1]) ? 0 : 1;
}
