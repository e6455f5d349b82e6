// Decides when a node is to be drained, and for which reason. Pure: from the states that the daemon
// and Slurm report to the action for Slurm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/slurm/controller.h"
#include "faces/protocol/slurm.h"

namespace gpuyard::cli::slurm {

// A reason that begins like this is ours: nobody else's drain is changed or undone.
inline constexpr std::string_view kReasonPrefix = "gpuyard: ";
inline constexpr std::size_t kMaxReasonBytes = 400;  // bytes
// The time that leftovers of a job may take to go before they are a reason.
inline constexpr Duration kExitGrace = std::chrono::seconds(2);

// "GPU 2: Xid 79. Reset it."
std::string unhealthy_text(const protocol::SlurmGpu&);

// Why the node gets no new job; "": it is well. `minors`: of the GPUs that Slurm hands out; empty:
// not known. Others are not Slurm's concern.
std::string drain_reason(const protocol::SlurmNode&, const std::vector<std::int64_t>& minors);

enum class NodeAction : std::uint8_t { nothing, drain, resume };

// `refused`: a prolog of ours has failed, so that Slurm has drained the node for that.
NodeAction action_for(const NodeState& now, std::string_view reason, bool refused);
// Whether Slurm has our reason after that step.
bool has_own_reason(const NodeState& before, NodeAction);

}  // namespace gpuyard::cli::slurm
