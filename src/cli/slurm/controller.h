// Runs Slurm's own commands and reads their output. Each has a timeout, because a controller that
// is away holds them up; nothing of Slurm is linked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::cli::slurm {

inline constexpr Duration kCommandTimeout = std::chrono::seconds(5);

// The advice if the controller closes a connection without a reply: it has not read the credential.
inline constexpr std::string_view kUnreadRequest = "Zero Bytes were transmitted or received";
inline constexpr std::string_view kCompareMungeKeys =
    "munge -n | ssh CONTROLLER unmunge  # prints Invalid credential if the munge keys differ";

// The usual folders of Slurm's commands.
inline constexpr std::array<std::string_view, 8> kDefaultFolders = {
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",       "/usr/bin",
    "/sbin",           "/bin",           "/opt/slurm/sbin", "/opt/slurm/bin"};

// Returns the existing ones that only root can change; all existing ones if the program does not
// run as root.
std::vector<std::string> trusted_default_folders();

// Adds the trusted usual folders of Slurm's commands to PATH, because Slurm gives its hooks none.
// Leaves out the working directory.
void extend_path();

// Runs one of Slurm's commands; returns what it printed, without what it remarked under its own
// name. The error begins with that name.
Result<std::string> run_slurm_command(const std::vector<std::string>& words,
                                      Duration timeout = kCommandTimeout);

// The error of a machine without one of Slurm's commands; `cause`: what it is needed for.
Error not_installed_error(std::string_view program, std::string cause);

// Runs a query of squeue, sinfo or scontrol about the whole cluster: times are in seconds since
// 1970, and the filters in the user's environment do not apply. Errc::unavailable: the command is
// not installed, the controller does not respond in time, or the answer is too long; the error has
// the next step.
inline constexpr std::size_t kMaxControllerAnswer = std::size_t{16} << 20;  // bytes
Result<std::string> query_controller(const std::vector<std::string>& words);

struct NodeState {
  std::string flags;   // "idle", "mixed+drain", "down+not_responding", ...
  std::string reason;  // "none": there is none

  bool has(std::string_view flag) const;  // one that begins with `flag`
  bool is_drained() const { return has("drain"); }
  // Whether more than a drain keeps the node out; only the one who caused that may undo it.
  bool is_otherwise_unavailable() const;
  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// Reads a line of sinfo: the flags in kFlagsWidth columns, then the reason.
inline constexpr std::size_t kFlagsWidth = 100;
Result<NodeState> parse_node_state(std::string_view text);
Result<NodeState> query_node(const std::string& node);
Result<void> drain_node(const std::string& node, const std::string& reason);
Result<void> resume_node(const std::string& node);

// Whether Slurm still has the job, and not only in its queue.
Result<bool> is_running(const std::string& job);

// A place in Slurm's list that is no GPU of its own, as an instance of MIG, or not known.
inline constexpr std::int64_t kNoGpu = -1;

// Reads what `slurmd -G` prints: the device files of the GPUs, in the order in which
// SLURM_JOB_GPUS counts them. Returns the numbers in their names; empty: Slurm has no files.
std::vector<std::int64_t> parse_minors(std::string_view text);
// `file`: slurm.conf; empty: where Slurm looks for it.
Result<std::vector<std::int64_t>> query_minors(const std::string& node, const std::string& file,
                                               Duration timeout);

// "n[1-3]" as names.
Result<std::vector<std::string>> expand_hosts(const std::string& nodes);

}  // namespace gpuyard::cli::slurm
