// gpuyard cordon and uncordon: withhold GPUs from new leases.
#include "cli/lease/daemon_report.h"
#include "cli/lease/lease_table.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

Options add_cordoning(Options program, CordonVerb& verb, const char* name, const char* summary) {
  const Options sub = program.verb(name, summary);
  add_socket(sub, verb.socket);
  add_json(sub, verb.json);
  add_gpus(sub, verb.gpus, "GPUs: indexes, UUIDs or PCI addresses, or all").required();
  return sub;
}

}  // namespace

Options add_cordon(Options program, CordonVerb& verb) {
  const Options cordon = add_cordoning(program, verb, "cordon", "Withhold GPUs from new leases");
  cordon.explain("Leases that are held continue. Needs permission to change GPUs.")
      .example("gpuyard cordon 3 --reason \"fan replacement\"")
      .example("gpuyard cordon all --reason \"maintenance on Friday\"");
  cordon.option("--reason", verb.reason, "Reason, shown to waiting users")
      .metavar("TEXT")
      .required();
  return cordon;
}

Options add_uncordon(Options program, CordonVerb& verb) {
  verb.lift = true;
  const Options uncordon =
      add_cordoning(program, verb, "uncordon", "Allow leases of cordoned GPUs again");
  const Option reason =
      uncordon.option("--reason", verb.reason, "Reason for --force, logged").metavar("TEXT");
  uncordon
      .flag("--force", verb.force,
            "Lease the GPUs although their state or use is unknown, until that changes")
      .needs(reason);
  uncordon.example("gpuyard uncordon 3")
      .example("gpuyard uncordon 3 --force --reason \"checked by hand\"");
  return uncordon;
}

int run(const CordonVerb& verb) {
  const auto submit = [&](const http::Endpoint& daemon) {
    if (verb.force) {
      return client::call_with_retry(daemon, protocol::kOverrideWithholding, {verb.gpus},
                                     {verb.reason});
    }
    if (verb.lift) return client::call_with_retry(daemon, protocol::kUncordon, {verb.gpus});
    return client::call_with_retry(daemon, protocol::kCordon, {verb.gpus}, {verb.reason});
  };
  return print_report(verb, "cordoning needs", submit, [&](const protocol::CordonResult& cordoned) {
    const Printable text = withheld_text(cordoned.withheld, wall_now());
    return text.empty() ? "These GPUs are not withheld from leasing.\n" : text;
  });
}

}  // namespace gpuyard::cli
