#include "cli/slurm/srun_messages.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/slurm/controller.h"

namespace gpuyard::cli::slurm {
namespace {

// Error messages of srun, from Slurm's list of errors, with our error code, message and hint.
struct SrunRefusal {
  std::string_view words;
  Errc code;
  std::string_view message;
  std::string_view hint;
};
constexpr std::array kSrunRefusals = {
    SrunRefusal{"Requested nodes are busy", Errc::conflict, "Slurm did not grant the GPUs in time",
                "squeue --start"},
    SrunRefusal{"Unable to contact slurm controller", Errc::unavailable,
                "Slurm's controller is not responding", "scontrol ping"},
    SrunRefusal{"authentication", Errc::unavailable,
                "Slurm's controller does not accept this machine", "munge -n | unmunge"},
    SrunRefusal{kUnreadRequest, Errc::unavailable,
                "Slurm's controller does not accept this machine", kCompareMungeKeys},
    SrunRefusal{"Invalid account", Errc::denied,
                "your user has no account for this partition in Slurm",
                "sacctmgr show associations user=$USER  # lists your accounts; without one, ask "
                "an administrator of the cluster\n"
                "export SLURM_ACCOUNT=NAME  # selects one of them"},
    SrunRefusal{"node configuration is not available", Errc::invalid,
                "no node of this partition has these GPUs", "sinfo -o '%P %G %D'"},
    SrunRefusal{"gres", Errc::invalid, "the job does not have these GPUs",
                "scontrol show job $SLURM_JOB_ID"},
    SrunRefusal{"time limit is invalid", Errc::invalid,
                "--max-time is longer than the partition allows", "sinfo -o '%P %l'"},
    SrunRefusal{"violates accounting/QOS policy", Errc::denied,
                "a limit of your account in Slurm does not allow this job",
                "sacctmgr show qos format=name,maxtrespu,maxwall"},
    SrunRefusal{"already completing or completed", Errc::conflict,
                "the job was cancelled before the command started", ""},
    SrunRefusal{"", Errc::conflict, "Slurm did not start the command", "sinfo"},
};

bool contains_word(std::string_view text, std::string_view word) {
  return text.find(word) != text.npos;
}

}  // namespace

void SrunMessages::add(std::string_view bytes) {
  constexpr std::size_t kMaxLineBytes = 1024;
  for (const char c : bytes) {
    if (c == '\n') {
      read_line(trim(line_));
      line_.clear();
    } else if (line_.size() < kMaxLineBytes) {
      line_ += c;
    }
  }
}

void SrunMessages::read_line(std::string_view line) {
  if (line.starts_with("slurmstepd")) {
    if (contains_word(line, "DUE TO TIME LIMIT ***")) time_over_ = true;
    if (contains_word(line, ": error: execve(): ")) program_missing_ = true;
    return;
  }
  const bool of_srun = line.starts_with("srun: error: ") || line.starts_with("srun: fatal: ");
  if (!of_srun) return;
  constexpr std::string_view kTask = ": task 0: ";
  if (const std::size_t task = line.find(kTask); task != line.npos) {
    task_ended_ = true;
    interrupted_ = line.substr(task + kTask.size()) == "Interrupt";
    error_.clear();
    return;
  }
  const std::string_view words = line.substr(line.find(": ", line.find(": ") + 1) + 2);
  // Other errors, such as that of a node that fails, are of a command that runs.
  if (words.starts_with("Unable to ") || line.starts_with("srun: fatal: ")) error_ = words;
}

std::optional<Error> SrunMessages::refusal() const {
  if (error_.empty()) return std::nullopt;
  const auto* const found = std::ranges::find_if(kSrunRefusals, [this](const SrunRefusal& refusal) {
    return contains_word(error_, refusal.words);
  });
  return Error{found->code, std::string(found->message), "", std::string(found->hint)};
}

}  // namespace gpuyard::cli::slurm
