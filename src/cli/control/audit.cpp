// gpuyard audit and gpuyard operations: what was asked of the GPUs, by whom, and what came of it.
#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/client/daemon_client.h"
#include "cli/control/control_daemon.h"
#include "cli/control/control_log.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "protocol/routes.h"

namespace gpuyard::cli {
namespace {

constexpr int kMostAuditLines = 1000;

}  // namespace

Options add_audit(Options program, AuditVerb& verb) {
  const Options audit =
      program.verb("audit", "Show who changed what of the GPUs, and who was refused");
  add_showing(audit, verb.socket, verb.json, verb.color);
  add_gpus(audit, verb.gpus, "Indexes, UUIDs or PCI addresses; else all");
  audit.option("-n,--limit", verb.limit, "The newest N (50)")
      .type_name("N")
      .range(1, kMostAuditLines);
  return audit;
}

Options add_operations(Options program, OperationsVerb& verb) {
  const Options operations =
      program.verb("operations", "Show changes that wait or run, and the last that are over");
  add_showing(operations, verb.socket, verb.json, verb.color);
  operations.option("id", verb.id, "Only this one").type_name("ID");
  return operations;
}

int run(const AuditVerb& verb) {
  const auto daemon = control_daemon(verb.socket);
  if (!daemon) return complain_without_daemon(daemon.error());
  protocol::AuditQuery query;
  if (!verb.gpus.empty()) query.gpu = verb.gpus;
  query.limit = verb.limit;
  const auto audit = client::call(*daemon, protocol::kAudit, query);
  if (!audit) return complain_about_control(audit.error(), *daemon);
  print(verb.json ? json::to_json(*audit) + "\n"
                  : audit_table(*audit, Screen::of_stdout(verb.color)));
  return 0;
}

int run(const OperationsVerb& verb) {
  const auto daemon = control_daemon(verb.socket);
  if (!daemon) return complain_without_daemon(daemon.error());
  protocol::Operations operations;
  if (verb.id.empty()) {
    auto all = client::call(*daemon, protocol::kOperations);
    if (!all) return complain_about_control(all.error(), *daemon);
    operations = *std::move(all);
  } else {
    auto one = client::call(*daemon, protocol::kOperation, {verb.id});
    if (!one) return complain_about_control(one.error(), *daemon);
    operations.operations.push_back(*std::move(one));
  }
  print(verb.json ? json::to_json(operations) + "\n"
                  : operations_table(operations, Screen::of_stdout(verb.color)));
  return 0;
}

}  // namespace gpuyard::cli
