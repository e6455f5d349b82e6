// The types of the GPUs of a cluster, by which Slurm selects them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuyard::cli::slurm {

// Reads the lines of `sinfo -o %G`, such as "gpu:h100:8(S:0-1),shard:16(S:0,1)". Returns each type
// once, in the order of the alphabet. GPUs without a type are left out.
std::vector<std::string> parse_gpu_types(std::string_view text);
Result<std::vector<std::string>> query_gpu_types();

// Returns the types that a --model means: the one with this name, else all that contain it. Case,
// blanks and punctuation make no difference: "H100 NVL" is in "nvidia_h100_nvl".
std::vector<std::string> types_of_model(const std::vector<std::string>& types,
                                        std::string_view model);

}  // namespace gpuyard::cli::slurm
