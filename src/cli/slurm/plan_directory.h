// Puts the files of a plan into a directory that only its owner can enter: all of them or none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/slurm/cluster_plan.h"

namespace gpuyard::cli::slurm {

struct PlacedFile {
  enum class State : std::uint8_t {
    written,
    unchanged,  // it was there, with this text or one that is kept
    beside,     // it was there with another text, so this one is in `name`, which ends in ".new"
  };
  std::string name;
  State state = State::written;
  // beside: "- old line", "+ new line"; empty for a file that only its owner may read.
  std::vector<std::string> difference = {};
};

// Writes the files below `directory`, which is made with mode 0700 unless it exists. A file that
// exists is never changed, except one that ends in ".new". After an error no new file is left.
// Errc::denied: another user could change the directory.
Result<std::vector<PlacedFile>> place_files(const std::string& directory,
                                            const std::vector<ClusterFile>& files);

// The lines that one text has more often than the other: "- old", then "+ new", each in order.
std::vector<std::string> line_difference(std::string_view old_text, std::string_view new_text);

}  // namespace gpuyard::cli::slurm
