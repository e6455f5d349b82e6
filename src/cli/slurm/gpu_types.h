// The words by which Slurm tells models of GPUs apart: Type= in gres.conf.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gpuyard::cli::slurm {

using GpuTypes = std::map<std::string, std::string>;  // by model

// Returns a word for each model: "NVIDIA H100 80GB HBM3" is "h100". Models that would have the same
// word get longer ones. A word begins with a letter and has small letters, digits, "_", "-" and
// ".", as Slurm's own words for models.
GpuTypes gpu_types_of(const std::vector<std::string>& models);

}  // namespace gpuyard::cli::slurm
