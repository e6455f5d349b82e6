// From nvidia-smi's command line to that of `gpuyard smi`: its options of one dash and several
// letters, what `smi` refuses, and the program under the name of nvidia-smi.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::cli {

// Returns the words after `gpuyard smi` in our spelling: --loop-ms for -lms. Errc::unsupported: a
// word stands for something that `smi` refuses; the advice is the command of ours that does it.
Result<std::vector<std::string>> smi_words(const std::vector<std::string>& words);

// Whether the program was called by this name, as argv[0] has it, to be nvidia-smi.
bool is_nvidia_smi(std::string_view program);

// Returns the words of `gpuyard` that do what nvidia-smi does with these. Called by a link in a
// world's directory, or beside the simulated library, the program reads the simulated GPUs: it gets
// the world in GPUYARD_SIM_WORLD, if that names none. Call it before the first thread starts.
std::vector<std::string> words_as_nvidia_smi(const std::string& program,
                                             const std::vector<std::string>& words);

}  // namespace gpuyard::cli
