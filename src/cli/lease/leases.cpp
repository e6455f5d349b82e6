// gpuyard leases: who holds which GPUs. gpuyard queue: which claims wait, and why.
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
namespace {

// Prints Slurm's answer where Slurm allocates the GPUs, otherwise that of the daemon.
template <class AnyVerb, class Answer>
int show_allocation(const AnyVerb& verb, int (*show_cluster)(bool json, ColorMode),
                    std::string_view what, const protocol::Route<protocol::NoParams, Answer>& route,
                    Printable (*table)(const Answer&, WallTime, const Screen&)) {
  const auto of_slurm = slurm::answers_for_cluster(verb.through, verb.socket);
  if (!of_slurm) return print_error(of_slurm.error());
  if (*of_slurm) return show_cluster(verb.json, verb.color);
  return print_report(
      verb, what, [&](const auto& daemon) { return client::call_with_retry(daemon, route); },
      [&](const Answer& answer) {
        return table(answer, wall_now(), Screen::of_stdout(verb.color));
      });
}

}  // namespace

Options add_leases(Options program, LeasesVerb& verb) {
  const Options leases = program.verb("leases", kLeasesSummary);
  add_output_options(leases, verb);
  add_through(leases, verb.through, kThroughHelp);
  leases.example("gpuyard leases").example("gpuyard leases --json");
  return leases;
}

int run(const LeasesVerb& verb) {
  return show_allocation(verb, slurm::show_cluster_leases, "leases need", protocol::kLeases,
                         lease_table);
}

Options add_queue(Options program, QueueVerb& verb) {
  const Options queue = program.verb("queue", "List waiting claims and why they wait");
  add_output_options(queue, verb);
  add_through(queue, verb.through, kThroughHelp);
  queue.example("gpuyard queue").example("gpuyard queue --json");
  return queue;
}

int run(const QueueVerb& verb) {
  return show_allocation(verb, slurm::show_cluster_queue, "the queue needs", protocol::kQueue,
                         queue_text);
}

}  // namespace gpuyard::cli
