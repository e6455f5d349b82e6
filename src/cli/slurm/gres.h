// Slurm's lists of generic resources (GRES), as squeue, sinfo and scontrol print them:
// "gpu:h100:2(IDX:0-1),gpu:a100:1(S:0)", "gres:gpu:2". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuyard::cli::slurm {

// GPUs of one type in such a list.
struct GresGpus {
  std::string type;  // "": none in gres.conf, or the job leaves it to Slurm
  std::int64_t count = 0;
  std::vector<std::uint32_t> indexes = {};  // in the order of gres.conf; empty: unknown

  friend bool operator==(const GresGpus&, const GresGpus&) = default;
};

// Returns the GPUs of a list in its order, without other resources. Empty: the list has no GPUs,
// also as "(null)" and "N/A". Nothing: the list cannot be read, or was cut.
std::optional<std::vector<GresGpus>> parse_gres_list(std::string_view list);

}  // namespace gpuyard::cli::slurm
