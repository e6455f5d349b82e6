// gpuyard leases: who holds which GPUs.
#include "cli/lease/daemon_report.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/slurm/cluster_verbs.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {

Options add_leases(Options program, LeasesVerb& verb) {
  const Options leases = program.verb("leases", kLeasesSummary);
  add_output_options(leases, verb.socket, verb.json, verb.color);
  add_through(leases, verb.through, kThroughHelp);
  leases.example("gpuyard leases").example("gpuyard leases --json");
  return leases;
}

int run(const LeasesVerb& verb) {
  const auto of_slurm = slurm::answers_for_cluster(verb.through, verb.socket);
  if (!of_slurm) return print_error(of_slurm.error());
  if (*of_slurm) return slurm::show_cluster_leases(verb.json, verb.color);
  return print_report(
      verb, "leases need",
      [](const auto& daemon) { return client::call_with_retry(daemon, protocol::kLeases); },
      [&](const protocol::Leases& leases) {
        return lease_table(leases, wall_now(), Screen::of_stdout(verb.color));
      });
}

}  // namespace gpuyard::cli
