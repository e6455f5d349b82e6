// gpuyard audit and gpuyard operations: the changes of GPUs, their requesters and their results.
#include "cli/control/control_daemon.h"
#include "cli/control/control_table.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/change_audit.h"
#include "daemon/config/config.h"
#include "faces/client/daemon_client.h"

namespace gpuyard::cli {
namespace {

constexpr int kMaxAuditLines = 1000;

// Changes and entries of this long ago are complete on both sides.
constexpr std::chrono::milliseconds kInProgressWindow{500};

// The daemon is not trusted here: it may send lines without end.
Result<std::vector<protocol::AuditLine>> fetch_audit(const http::Endpoint& daemon) {
  constexpr std::size_t kMaxFetchedLines = 200'000;
  std::vector<protocol::AuditLine> lines;
  protocol::AuditQuery query;
  query.limit = kMaxAuditLines;
  for (;;) {
    const auto page = client::call_with_retry(daemon, protocol::kAudit, query);
    if (!page) return page.error();
    lines.insert(lines.begin(), page->entries.begin(), page->entries.end());
    if (page->entries.size() < static_cast<std::size_t>(kMaxAuditLines)) return lines;
    const auto first = page->entries.front().number;
    if ((query.before && first >= *query.before) || lines.size() > kMaxFetchedLines) {
      return Error{Errc::conflict, "the daemon sent more audit entries than it can have"};
    }
    query.before = first;
  }
}

int verify_audit(const AuditVerb& verb, const http::Endpoint& daemon) {
  if (daemon.is_remote() || verb.json || !verb.gpus.empty()) {
    return print_error(
        {Errc::invalid, "--verify compares the whole audit of this machine, and prints no JSON"});
  }
  const auto config = config::load(Environment::current(), "");
  if (!config) return print_error(config.error());
  const std::string until = to_rfc3339(wall_now());
  std::this_thread::sleep_for(kInProgressWindow);
  const auto audit = fetch_audit(daemon);
  if (!audit) {
    return print_control_error(audit.error(), daemon.is_remote(), "reading the audit log");
  }
  const std::string log =
      verb.log.empty() ? daemon::change_log_of(config->state.directory, daemon.path) : verb.log;
  const auto compared = daemon::compare_with_log(log, *audit, until);
  if (!compared) return print_error(compared.error());
  for (const std::string& difference : compared->differences) {
    print(formatted("{}\n", difference));
  }
  print(formatted("{} changes since {}: {}\n", compared->changes,
                  compared->since.empty() ? "the first" : compared->since,
                  compared->differences.empty()
                      ? std::string("the audit log matches the setter's log")
                      : fmt::format("{} differences", compared->differences.size())));
  if (compared->older > 0) {
    print(
        formatted("{} older changes in {} were not compared: the audit log no longer has entries "
                  "of that time\n",
                  compared->older, log));
  }
  if (compared->excused > 0) {
    print(formatted(
        "{} restored settings are not in the setter's log, which could not be written then.\n",
        compared->excused));
  }
  return compared->differences.empty() ? 0 : exit_code_of(Errc::conflict);
}

}  // namespace

Options add_audit(Options program, AuditVerb& verb) {
  const Options audit =
      program.verb("audit", "Show the audit log of GPU changes and refused requests");
  add_output_options(audit, verb);
  add_gpus(audit, verb.gpus, "Only these GPUs: indexes, UUIDs or PCI addresses").default_is("all");
  audit.option("-n,--limit", verb.limit, "Show the newest N entries, 1 to 1000")
      .metavar("N")
      .default_is("50")
      .range(1, kMaxAuditLines);
  const Option verify = audit.flag(
      "--verify", verb.verify, "Compare the audit log with the setter's own log of its changes");
  audit.option("--log", verb.log, "Log of the setter")
      .metavar("FILE")
      .default_is("where the service or the daemon writes it")
      .needs(verify);
  return audit.example("gpuyard audit -n 100")
      .example("gpuyard audit 0")
      .example("sudo gpuyard audit --verify")
      .exit_codes("Exit codes: 7 --verify found a difference");
}

Options add_operations(Options program, OperationsVerb& verb) {
  const Options operations =
      program.verb("operations", "List queued, running and recently finished changes");
  add_output_options(operations, verb);
  operations.option("id", verb.id, "Show only this operation").metavar("ID");
  return operations.example("gpuyard operations").example("gpuyard operations 17 --json");
}

int run(const AuditVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "the audit log needs");
  if (!daemon) return print_source_error(daemon.error());
  if (verb.verify) return verify_audit(verb, *daemon);
  protocol::AuditQuery query;
  query.gpu = non_empty(verb.gpus);
  query.limit = verb.limit;
  const auto audit = client::call_with_retry(*daemon, protocol::kAudit, query);
  if (!audit) {
    return print_control_error(audit.error(), daemon->is_remote(), "reading the audit log");
  }
  print(verb.json ? json_line(*audit) : audit_table(*audit, Screen::of_stdout(verb.color)));
  return 0;
}

int run(const OperationsVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "operations need");
  if (!daemon) return print_source_error(daemon.error());
  protocol::Operations operations;
  if (verb.id.empty()) {
    auto all = client::call_with_retry(*daemon, protocol::kOperations);
    if (!all) return print_control_error(all.error(), daemon->is_remote());
    operations = *std::move(all);
  } else {
    auto one = client::call_with_retry(*daemon, protocol::kOperation, {verb.id});
    if (!one) return print_control_error(one.error(), daemon->is_remote());
    operations.operations.push_back(*std::move(one));
  }
  print(verb.json ? json_line(operations)
                  : operations_table(operations, Screen::of_stdout(verb.color)));
  return 0;
}

}  // namespace gpuyard::cli
