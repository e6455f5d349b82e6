// gpuyard slurm: the options of the hooks and of a plan, and what a node tells Slurm, for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/fleet/fleet_query.h"
#include "cli/lease/forget_allocator.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using Action = SlurmVerb::Action;

Printable text_of(const protocol::SlurmNode& node, const Screen& screen) {
  FittedTable gpus{{{"GPU", true}, {"DEVICE"}, {"STATE"}, {"REASON", false, 1}}};
  for (const protocol::SlurmGpu& gpu : node.gpus) {
    gpus.add({{std::to_string(gpu.index)},
              {gpu.minor ? fmt::format("/dev/nvidia{}", *gpu.minor) : "-"},
              gpu.rule      ? Cell{"quarantined", Tone::bad}
              : gpu.unknown ? Cell{"unknown", Tone::warning}
                            : Cell{"ok", Tone::good},
              {gpu.rule ? gpu.why : gpu.unknown.value_or("")}});
  }
  FittedTable jobs{{{"JOB"}, {"USER"}, {"GPUS"}, {"STATE"}, {"LEFT OVER", false, 1}}};
  for (const protocol::SlurmJob& job : node.jobs) {
    jobs.add({{job.job},
              {job.user.value_or(std::to_string(job.uid))},
              {fmt::format("{}", fmt::join(job.gpus, ","))},
              {std::string(enum_name(job.state))},
              {job.left}});
  }
  Printable text = node.gpus.empty() ? "" : gpus.text(screen) + "\n";
  if (!node.jobs.empty()) text += jobs.text(screen) + "\n";
  text += node.observes ? Printable("Slurm allocates the GPUs; gpuyard only observes.\n")
                        : "gpuyard leases the GPUs; Slurm does not allocate them.\n";
  if (node.driver_error) text += formatted("No driver: {}\n", *node.driver_error);
  if (!node.trouble.empty()) text += formatted("Hook error: {}\n", node.trouble);
  return text;
}

int show_status(const SlurmVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "the state of Slurm's jobs needs");
  if (!daemon) return print_source_error(daemon.error());
  const auto node = client::call_with_retry(*daemon, protocol::kSlurm);
  if (!node) return print_source_error(node.error());
  print(verb.json ? json_line(*node) : text_of(*node, Screen::of_stdout()));
  return 0;
}

}  // namespace

Options add_slurm(Options program, SlurmVerb& verb) {
  const Options slurm = program.verb("slurm", "Plan a Slurm cluster, and run and check its hooks");
  slurm.requires_verb()
      .explain(
          "Slurm runs health, prolog, epilog and epilog-ctld as its hooks; install writes the "
          "scripts for them.")
      .example("gpuyard slurm install --into /etc/gpuyard/slurm", "Write the hook scripts")
      .example("gpuyard slurm status");
  const auto action = [&](Action what, const char* name, const char* help) {
    return slurm.verb(name, help).sets(verb.action, what);
  };
  const auto hook = [&](Action what, const char* name, const char* help) {
    const Options sub = action(what, name, help);
    add_socket(sub, verb.socket);
    sub.option("--spool", verb.spool, "Directory for state shared between hooks")
        .metavar("DIR")
        .default_is("/run/gpuyard-slurm");
    return sub;
  };
  const Options status = action(Action::status, "status", "Show quarantined GPUs and running jobs");
  add_socket(status, verb.socket);
  add_json(status, verb.json);
  status.example("gpuyard slurm status --json");
  hook(Action::health, "health", "Drain or resume the node by GPU health (HealthCheckProgram)")
      .example("gpuyard slurm health");
  hook(Action::prolog, "prolog", "Record that a job has started on its GPUs (Prolog)")
      .formerly("begin")
      .exit_codes("Exit code 1: a GPU of the job is quarantined")
      .example("gpuyard slurm prolog");
  hook(Action::epilog, "epilog", "Record that a job has ended (Epilog)")
      .formerly("end")
      .example("gpuyard slurm epilog");
  const Options controller =
      action(Action::epilog_ctld, "epilog-ctld",
             "Write a job's GPU usage to its AdminComment (EpilogSlurmctld)");
  controller.option("--url", verb.url, "URL of a node's daemon, with {} for the node name")
      .metavar("URL")
      .default_is("the node's name, as for -H");
  controller.example("gpuyard slurm epilog-ctld --url https://{}:9411");
  const Options install =
      action(Action::install, "install", "Check slurm.conf, and write the hook scripts");
  install.option("--into", verb.into, "Directory to write the hooks to")
      .metavar("DIR")
      .default_is("write nothing");
  install.example("gpuyard slurm install", "Check the lines of slurm.conf")
      .example("gpuyard slurm install --into /etc/gpuyard/slurm")
      .exit_codes("Exit code 1: a line of slurm.conf is missing");
  const Options plan = action(Action::plan, "plan", "Write the files of a new Slurm cluster");
  plan.explain(
      "Queries the gpuyard of each machine, and writes the same slurm.conf, gres.conf, "
      "cgroup.conf and munge key for all of them, and a page of the next steps. Changes nothing "
      "on the machines.");
  plan.option("--controller", verb.controller, "Machine that runs slurmctld, one of the machines")
      .metavar("HOST");
  plan.option("--into", verb.into, "Directory to write the files to, or with --check to read")
      .metavar("DIR")
      .default_is("with --check: /etc/slurm");
  plan.flag("--accounting", verb.accounting, "Add slurmdbd, fair share and GPU accounting");
  plan.flag("--check", verb.check, "Compare the files with this machine, and write nothing")
      .excludes(plan.find("--controller"));
  add_machine_options(plan, verb);
  plan.example("gpuyard slurm plan --hosts lab1,lab2,lab3 --controller lab1 --into slurm-plan")
      .example("gpuyard slurm plan --controller lab1 --into slurm-plan --accounting",
               "Plan all machines of hosts.toml")
      .example("gpuyard slurm plan --check", "Compare this machine with /etc/slurm")
      .exit_codes("Exit code 1: with --check, a file differs from the machine");
  const Options forget =
      action(Action::forget, "forget", "Let gpuyard lease the GPUs again after Slurm was removed");
  add_socket(forget, verb.socket);
  forget.example("gpuyard slurm forget");
  return slurm;
}

int run(const SlurmVerb& verb) {
  slurm::extend_path();
  switch (verb.action) {
    case Action::status:
      return show_status(verb);
    case Action::health:
      return slurm::health(verb);
    case Action::prolog:
      return slurm::prolog(verb);
    case Action::epilog:
      return slurm::epilog(verb);
    case Action::epilog_ctld:
      return slurm::comment(verb);
    case Action::install:
      return slurm::install(verb);
    case Action::plan:
      return slurm::plan(verb);
    case Action::forget:
      return forget_allocator(verb.socket, "the state of Slurm's jobs needs",
                              protocol::kForgetSlurm, "a Slurm hook runs");
  }
  return 0;
}

}  // namespace gpuyard::cli
