// What Slurm's own commands say, and are told. They are run, each with a deadline, because a
// controller that is away holds them up; nothing of Slurm is linked.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::cli::slurm {

inline constexpr Duration kPatience = std::chrono::seconds(5);

// Slurm gives its hooks no PATH; without one its commands are looked for where they usually are.
void set_path();

// Runs one of Slurm's commands; returns what it printed. The error begins with its name.
Result<std::string> run(const std::vector<std::string>& words, Duration patience = kPatience);

struct NodeState {
  std::string state;   // "idle", "mixed", "drained*", ...
  std::string reason;  // "none": there is none

  bool drained() const { return state.starts_with("drain"); }
  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// Reads a line of `sinfo -o '%T|%E'`.
Result<NodeState> node_state_in(std::string_view text);
Result<NodeState> ask_node(const std::string& node);
Result<void> drain(const std::string& node, const std::string& reason);
Result<void> resume(const std::string& node);

// Returns the numbers of the jobs that have this node.
Result<std::set<std::string>> jobs_on(const std::string& node);

// Reads what `slurmd -G` prints: the device files of the GPUs, in the order in which
// SLURM_JOB_GPUS counts them. Returns the numbers in their names; empty: Slurm has no files.
std::vector<std::int64_t> minors_in(std::string_view text);
// `file`: slurm.conf; one that is not there is looked for where Slurm usually does.
Result<std::vector<std::int64_t>> ask_minors(const std::string& node, const std::string& file);

// "n[1-3]" as names.
Result<std::vector<std::string>> hosts_in(const std::string& nodes);

}  // namespace gpuyard::cli::slurm
