// Slurm's reasons why a job waits, explained.
#pragma once

#include <string>
#include <string_view>

namespace gpuyard::cli::slurm {

// Returns why the job waits, as a text that follows Slurm's own word; "" for a reason that is not
// well known.
std::string explain_reason(std::string_view reason);

}  // namespace gpuyard::cli::slurm
