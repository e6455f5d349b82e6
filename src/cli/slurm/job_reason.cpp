#include "cli/slurm/job_reason.h"

#include <algorithm>
#include <array>

namespace gpuyard::cli::slurm {
namespace {

// The first whose word the reason begins with applies.
struct ExplainedReason {
  std::string_view word;
  std::string_view text;
};
constexpr std::array kReasons = {
    ExplainedReason{"Resources", "the GPUs, CPUs or memory it asks for are in use"},
    ExplainedReason{"Priority", "jobs of higher priority are ahead"},
    ExplainedReason{"DependencyNeverSatisfied", "the job it depends on has failed; cancel it"},
    ExplainedReason{"Dependency", "the job it depends on has not ended"},
    ExplainedReason{"JobHeldUser", "its user holds it; scontrol release ends that"},
    ExplainedReason{"JobHeldAdmin", "an administrator holds it"},
    ExplainedReason{"job requeued in held state", "it was requeued and is held"},
    ExplainedReason{"job_requeued_in_held_state", "it was requeued and is held"},
    ExplainedReason{"launch failed requeued held", "its start failed; scontrol release retries"},
    ExplainedReason{"launch_failed_requeued_held", "its start failed; scontrol release retries"},
    ExplainedReason{"BeginTime", "its earliest start is in the future"},
    ExplainedReason{"JobArrayTaskLimit", "its array runs as many tasks as it allows"},
    ExplainedReason{"Licenses", "a licence is in use"},
    ExplainedReason{"PartitionTimeLimit", "its time limit is longer than the partition allows"},
    ExplainedReason{"PartitionNodeLimit", "it asks for more nodes than the partition allows"},
    ExplainedReason{"PartitionDown", "the partition is down"},
    ExplainedReason{"PartitionInactive", "the partition starts no jobs"},
    ExplainedReason{"PartitionConfig", "the partition does not allow it"},
    ExplainedReason{"ReqNodeNotAvail", "a node it asks for is down, drained or reserved"},
    ExplainedReason{"Nodes required for job are DOWN", "all nodes it could use are unavailable"},
    ExplainedReason{"Nodes_required_for_job_are_DOWN", "all nodes it could use are unavailable"},
    ExplainedReason{"ReservationDeleted", "its reservation was deleted"},
    ExplainedReason{"Reservation", "its reservation has not begun"},
    ExplainedReason{"NodeDown", "a node it asks for is down"},
    ExplainedReason{"BadConstraints", "no node can satisfy it"},
    ExplainedReason{"InvalidAccount", "its account is not valid"},
    ExplainedReason{"InvalidQOS", "its QOS is not valid"},
    ExplainedReason{"QOS", "a limit of its QOS is reached"},
    ExplainedReason{"Assoc", "a limit of its account is reached"},
    ExplainedReason{"Cleaning", "its earlier run is ending"},
    ExplainedReason{"None", "Slurm has not tried to start it yet"},
};

}  // namespace

std::string explain_reason(std::string_view reason) {
  const auto* const found = std::ranges::find_if(
      kReasons, [&](const ExplainedReason& one) { return reason.starts_with(one.word); });
  return found == kReasons.end() ? "" : std::string(found->text);
}

}  // namespace gpuyard::cli::slurm
