// gpuyard queue: which claims wait, and why.
#include "cli/lease/daemon_report.h"
#include "cli/lease/lease_table.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/slurm/cluster_verbs.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {

Options add_queue(Options program, QueueVerb& verb) {
  const Options queue = program.verb("queue", "List waiting claims and why they wait");
  add_output_options(queue, verb.socket, verb.json, verb.color);
  add_through(queue, verb.through, kThroughHelp);
  queue.example("gpuyard queue").example("gpuyard queue --json");
  return queue;
}

int run(const QueueVerb& verb) {
  const auto of_slurm = slurm::answers_for_cluster(verb.through, verb.socket);
  if (!of_slurm) return print_error(of_slurm.error());
  if (*of_slurm) return slurm::show_cluster_queue(verb.json, verb.color);
  return print_report(
      verb, "the queue needs",
      [](const auto& daemon) { return client::call_with_retry(daemon, protocol::kQueue); },
      [&](const protocol::Queue& queue) {
        return queue_text(queue, wall_now(), Screen::of_stdout(verb.color));
      });
}

}  // namespace gpuyard::cli
