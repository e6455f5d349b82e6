#include "cli/slurm/cluster_verbs.h"

#include <fmt/format.h>

#include "cli/lease/lease_text.h"
#include "cli/screen/output.h"
#include "cli/slurm/cluster_jobs.h"
#include "cli/slurm/cluster_nodes.h"
#include "cli/slurm/cluster_table.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/run_option.h"
#include "cli/slurm/srun_line.h"
#include "cli/slurm/through_slurm.h"
#include "faces/client/daemon_address.h"

namespace gpuyard::cli::slurm {
namespace {

// The `gpuyard run` that claims these GPUs.
RunVerb run_of(const ClaimOptions& wanted, Through through) {
  RunVerb verb;
  verb.wanted = wanted;
  verb.through = through;
  verb.command = {"COMMAND"};
  return verb;
}

}  // namespace

Result<bool> answers_for_cluster(Through through, const std::string& socket) {
  const bool remote = !socket.empty() && client::is_remote_address(socket);
  if (remote && through == Through::slurm) {
    return Error{
        Errc::invalid, "--through slurm and a daemon on another machine exclude each other",
        "Slurm's answer is about its whole cluster", "unset GPUYARD_HOST  # or leave out -H"};
  }
  return !remote && is_through_slurm(through);
}

int show_cluster_queue(bool json, ColorMode color) {
  extend_path();
  const auto squeue = query_controller(pending_jobs_query());
  if (!squeue) return print_error(squeue.error());
  const WallTime now = wall_now();
  const auto queue = parse_queue(*squeue, now);
  if (!queue) return print_error(queue.error());
  print(json ? json_line(*queue) : cluster_queue_text(*queue, now, Screen::of_stdout(color)));
  return 0;
}

int show_cluster_leases(bool json, ColorMode color) {
  extend_path();
  const auto squeue = query_controller(running_jobs_query());
  if (!squeue) return print_error(squeue.error());
  const auto scontrol = query_controller(allocations_query());
  auto leases = parse_leases(*squeue, scontrol ? *scontrol : "");
  if (!leases) return print_error(leases.error());
  if (!scontrol) {
    leases->notes.push_back(
        fmt::format("The allocated GPUs are unknown: {}.", scontrol.error().text()));
  }
  print(json ? json_line(*leases)
             : cluster_leases_text(*leases, wall_now(), Screen::of_stdout(color)));
  return 0;
}

int show_cluster_free(const ClaimOptions& wanted, Through through, bool json, ColorMode color) {
  const RunVerb claim = run_of(wanted, through);
  if (const auto possible = check_for_slurm(claim); !possible) return print_error(possible.error());
  extend_path();
  const auto sinfo = query_controller(nodes_query());
  if (!sinfo) return print_error(sinfo.error());
  const auto answer = parse_free(*sinfo, wanted);
  if (!answer) return print_error(answer.error());
  print(json ? json_line(*answer) : cluster_free_text(*answer, Screen::of_stdout(color)));
  if (answer->enough) return 0;
  return print_error({Errc::conflict,
                      fmt::format("no node has {} free", number_of_gpus(*wanted.request.gpus)),
                      answer->why, run_line(claim) + "  # waits for them"});
}

}  // namespace gpuyard::cli::slurm
