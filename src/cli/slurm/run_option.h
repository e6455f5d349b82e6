// The treatment of each option of `gpuyard run` when Slurm allocates the GPUs. This table yields
// the arguments of srun and of the step on the node, the refusals, and the table in docs/slurm.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.h"

namespace gpuyard::cli::slurm {

struct RunOption {
  enum class Treatment : std::uint8_t {
    passed_on,  // becomes an option of srun
    on_node,    // our program does it on the job's node
    refused,
    here,  // decides before srun starts
  };
  std::string_view name;  // the long one; "COMMAND"
  Treatment treatment;
  std::string_view remark;  // for people: what it becomes, or why it is refused
  // Returns the words of an option that is not the claim's.
  std::vector<std::string> (*own_words)(const RunVerb&) = nullptr;

  // Returns the option as the user gave it: {"--model", "H100"}; empty: it was not given.
  std::vector<std::string> words(const RunVerb&) const;
};

std::span<const RunOption> run_options();

// Returns the words of all given options that our program needs on the node.
std::vector<std::string> node_words(const RunVerb&);

// Returns the command line that says the same, as a user would type it.
std::string run_line(const RunVerb&);

}  // namespace gpuyard::cli::slurm
