// gpuyard slurm: the options of the hooks, and what a node tells Slurm, for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/lease/lease_text.h"
#include "cli/read/reading.h"
#include "cli/screen/fitted_table.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"
#include "client/daemon_client.h"
#include "protocol/routes.h"

namespace gpuyard::cli {
namespace {

using Action = SlurmVerb::Action;

Printable text_of(const protocol::SlurmNode& node, const Screen& screen) {
  FittedTable gpus{{{"GPU", true}, {"device"}, {"state"}, {"why", false, 1}}};
  for (const protocol::SlurmGpu& gpu : node.gpus) {
    gpus.add({{std::to_string(gpu.index)},
              {gpu.minor ? fmt::format("/dev/nvidia{}", *gpu.minor) : "-"},
              gpu.rule ? Cell{"quarantined", Tone::bad} : Cell{"ok", Tone::good},
              {gpu.rule ? printable(gpu.why) : ""}});
  }
  FittedTable jobs{{{"job"}, {"user"}, {"GPUs"}, {"state"}, {"left over", false, 1}}};
  for (const protocol::SlurmJob& job : node.jobs) {
    jobs.add({{job.job},
              {printable(job.user.value_or(std::to_string(job.uid)))},
              {fmt::format("{}", fmt::join(job.gpus, ","))},
              {std::string(enum_name(job.state))},
              {printable(job.left)}});
  }
  Printable text = gpus.text(screen);
  if (!node.jobs.empty()) text += "\n" + jobs.text(screen);
  text += node.observes ? Printable("\nSlurm allocates the GPUs; gpuyard only observes.\n")
                        : "\ngpuyard allocates the GPUs; no Slurm hook has run yet.\n";
  if (node.driver_error) text += formatted("No driver: {}\n", *node.driver_error);
  if (!node.trouble.empty()) text += formatted("Hook error: {}\n", node.trouble);
  return text;
}

int show_status(const SlurmVerb& verb) {
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  const auto node = client::call(*daemon, protocol::kSlurm);
  if (!node) return complain_about_daemon(node.error());
  print(verb.json ? json_line(*node) : text_of(*node, Screen::of_stdout()));
  return 0;
}

int forget(const SlurmVerb& verb) {
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  const auto node = client::call(*daemon, protocol::kForgetSlurm);
  if (!node) return complain_about_daemon(node.error());
  print("gpuyard leases the GPUs of this machine, until a hook of Slurm runs.\n");
  return 0;
}

}  // namespace

Options add_slurm(Options program, SlurmVerb& verb) {
  const Options slurm = program.verb("slurm", "Run and check the Slurm hooks");
  slurm.requires_verb();
  const auto action = [&](Action what, const char* name, const char* help) {
    return slurm.verb(name, help).sets(verb.action, what);
  };
  const auto hook = [&](Action what, const char* name, const char* help) {
    const Options sub = action(what, name, help);
    add_socket(sub, verb.socket);
    sub.option("--spool", verb.spool,
               "Directory for state shared between hooks [default: /run/gpuyard-slurm]")
        .type_name("DIRECTORY");
  };
  const Options status = action(Action::status, "status", "Show quarantined GPUs and running jobs");
  add_socket(status, verb.socket);
  status.flag("--json", verb.json, "Print JSON");
  hook(Action::health, "health",
       "Drain or resume the node by the health of its GPUs (HealthCheckProgram)");
  hook(Action::begin, "begin", "Record that a job has started on its GPUs (Prolog)");
  hook(Action::end, "end", "Record that a job has ended (Epilog)");
  action(Action::epilog_ctld, "epilog-ctld",
         "Write a job's GPU usage to its AdminComment (EpilogSlurmctld)")
      .option("--url", verb.url,
              "URL of a node's daemon, with {} for the node name, e.g. https://{}:9411")
      .type_name("URL");
  action(Action::install, "install", "Check slurm.conf, and write the hook scripts")
      .option("--into", verb.into, "Directory to write the hooks to [default: write nothing]")
      .type_name("DIRECTORY");
  add_socket(action(Action::forget, "forget", "Lease the GPUs again, once Slurm no longer does"),
             verb.socket);
  return slurm;
}

int run(const SlurmVerb& verb) {
  slurm::complete_path();
  switch (verb.action) {
    case Action::status:
      return show_status(verb);
    case Action::health:
      return slurm::health(verb);
    case Action::begin:
      return slurm::begin(verb);
    case Action::end:
      return slurm::end(verb);
    case Action::epilog_ctld:
      return slurm::comment(verb);
    case Action::install:
      return slurm::install(verb);
    case Action::forget:
      return forget(verb);
  }
  return 0;
}

}  // namespace gpuyard::cli
