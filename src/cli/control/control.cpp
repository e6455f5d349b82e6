// gpuyard power, clocks, persistence, compute-mode, ecc, reset and restore: one way to show, to ask
// and to change. control_request.h says what each of them asks for.

#include "cli/control/control_daemon.h"
#include "cli/control/control_request.h"
#include "cli/control/control_table.h"
#include "cli/control/control_text.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/verbs.h"
#include "daemon/config/config.h"
#include "faces/client/daemon_client.h"

namespace gpuyard::cli {
namespace {

using protocol::ChangeResult;
using protocol::ChangeResults;
using protocol::Management;
using Requests = std::vector<ControlRequest>;

// The result of one request, or of its dry run.
struct RequestOutcome {
  std::string what;
  ChangeResults changes;
};

struct RequestOutcomes {
  std::vector<RequestOutcome> completed;
  std::optional<Error> refusal;  // the next request, refused as a whole

  ChangeResults all_changes() const {
    ChangeResults all;
    for (const RequestOutcome& outcome : completed) {
      all.simulated = outcome.changes.simulated;
      all.changes.insert(all.changes.end(), outcome.changes.changes.begin(),
                         outcome.changes.changes.end());
    }
    return all;
  }
  // Calls on_change(outcome, change) for changes that succeeded, or for those that failed.
  template <class OnChange>
  void for_each_change(bool success, OnChange&& on_change) const {
    for (const RequestOutcome& outcome : completed) {
      for (const ChangeResult& change : outcome.changes.changes) {
        if (has_succeeded(change) == success) on_change(outcome, change);
      }
    }
  }
};

// The longest wait for the settings. The daemon itself waits 2 s for GPUs that do not answer.
constexpr Duration kSettingsReadTimeout = std::chrono::seconds(5);

Result<Management> management_of(const http::Endpoint& daemon, const std::string& gpus) {
  if (gpus.empty())
    return client::call_with_retry(daemon, protocol::kManagement, {}, {}, kSettingsReadTimeout);
  return client::call_with_retry(daemon, protocol::kGpuManagement, {gpus}, {},
                                 kSettingsReadTimeout);
}

// The user on another machine is not known here: no claim there is called "you".
ControlReader reader_of(const http::Endpoint& daemon) {
  auto reader = ControlReader::of_process();
  if (daemon.is_remote()) reader.name.clear();
  return reader;
}

int show(const ControlVerb& verb) {
  const auto daemon = require_daemon(verb.socket, "GPU settings need");
  if (!daemon) return print_source_error(daemon.error());
  auto management = management_of(*daemon, verb.gpus);
  if (!management) return print_control_error(management.error(), daemon->is_remote());
  keep_only(*management, settings_of(verb.subject));
  if (verb.json) print(json_line(*management));
  for (const std::string& note : management->notes) print_note("note: " + note);
  if (management->gpus.empty()) {
    return print_error({Errc::unavailable, "the daemon reports no GPUs", "", "gpuyard doctor"});
  }
  if (verb.json) return 0;
  if (!management->enabled) {
    print_note(
        "note: changing GPUs is disabled: [control] enabled is false in the daemon's "
        "configuration");
  }
  print(control_table(*management, reader_of(*daemon), Screen::of_stdout(verb.color)));
  return 0;
}

// Makes the requests until the daemon refuses one as a whole.
RequestOutcomes submit_all(const Requests& requests, const http::Endpoint& daemon, bool dry_run) {
  RequestOutcomes outcomes;
  for (const ControlRequest& request : requests) {
    auto changes = request.submit(daemon, dry_run);
    if (!changes) {
      outcomes.refusal = std::move(changes).error();
      break;
    }
    outcomes.completed.push_back({request.what, *std::move(changes)});
  }
  return outcomes;
}

// Says what failed; returns the exit code.
int print_errors(const RequestOutcomes& outcomes, const http::Endpoint& daemon,
                 const ControlReader& reader) {
  outcomes.for_each_change(false, [&](const RequestOutcome& outcome, const ChangeResult& change) {
    print_note(result_line(change, outcome.what, reader));
  });
  if (outcomes.refusal) return print_control_error(*outcomes.refusal, daemon.is_remote());
  return worst_exit_code(outcomes.all_changes());
}

using Names = std::map<std::string, std::string>;  // of GPUs, by UUID

// The names are only for people: without them a dry run shows indexes.
Names names_of(const http::Endpoint& daemon, const std::string& gpus) {
  Names names;
  const auto management = management_of(daemon, gpus);
  if (!management) return names;
  for (const protocol::ManagedGpu& gpu : management->gpus) names[gpu.uuid] = short_name(gpu.name);
  return names;
}

Printable plan_text(const RequestOutcomes& outcomes, const ControlReader& reader,
                    const http::Endpoint& daemon, const std::string& gpus) {
  const Names names = names_of(daemon, gpus);
  Printable text;
  outcomes.for_each_change(true, [&](const RequestOutcome& outcome, const ChangeResult& change) {
    const auto name = names.find(change.uuid);
    text += formatted(
        "{}\n", plan_line(change, outcome.what, name != names.end() ? name->second : "", reader));
  });
  if (!text.empty()) text = host_heading(daemon.text()) + text;
  if (outcomes.all_changes().simulated) text += "These GPUs are simulated.\n";
  return text;
}

// Says what would happen and changes nothing.
int plan(const ControlVerb& verb, const Requests& requests, const http::Endpoint& daemon) {
  const auto reader = reader_of(daemon);
  const RequestOutcomes outcomes = submit_all(requests, daemon, true);
  if (verb.json) {
    if (!outcomes.completed.empty()) print(json_line(outcomes.all_changes()));
  } else {
    print(plan_text(outcomes, reader, daemon, verb.gpus));
  }
  return print_errors(outcomes, daemon, reader);
}

// Asks the user. Empty: the user agreed; else the exit code.
std::optional<int> check_confirmation(const ControlVerb& verb, const Requests& requests,
                                      const http::Endpoint& daemon) {
  const auto reader = reader_of(daemon);
  const RequestOutcomes outcomes = submit_all(requests, daemon, true);
  const int code = print_errors(outcomes, daemon, reader);
  const ChangeResults all = outcomes.all_changes();
  const bool possible = std::ranges::any_of(all.changes, has_succeeded);
  if (outcomes.refusal || !possible || (verb.atomic && code != 0)) {
    print_note(all.changes.empty() && code == 0 ? "nothing to change" : "nothing was changed");
    return code;
  }
  Printable text = plan_text(outcomes, reader, daemon, verb.gpus);
  if (verb.subject == ControlVerb::Subject::reset) {
    text += formatted("During the reset, all GPUs of {} machine are unavailable for a moment.\n",
                      host_heading(daemon.text()).empty() ? "this" : "that");
  }
  print_stderr(text);
  if (confirm("Apply?")) return std::nullopt;
  print_note("nothing was changed");
  return exit_code_of(Errc::internal);
}

int apply_changes(const ControlVerb& verb, const Requests& requests, const http::Endpoint& daemon) {
  const RequestOutcomes outcomes = submit_all(requests, daemon, false);
  const auto reader = reader_of(daemon);
  const ChangeResults all = outcomes.all_changes();
  if (verb.json && !outcomes.completed.empty()) print(json_line(all));
  if (!verb.json) {
    if (std::ranges::any_of(all.changes, has_succeeded)) print(host_heading(daemon.text()));
    outcomes.for_each_change(true, [&](const RequestOutcome& outcome, const ChangeResult& change) {
      print(formatted("{}\n", result_line(change, outcome.what, reader)));
    });
    if (all.changes.empty() && !outcomes.refusal) print_note("nothing to change");
    if (all.simulated && std::ranges::any_of(all.changes, has_succeeded)) {
      print_stderr(
          "These GPUs are simulated.\n");  // stdout has a line for each change, for scripts
    }
  }
  return print_errors(outcomes, daemon, reader);
}

}  // namespace

int run(const ControlVerb& verb) {
  const auto requests = requests_of(verb);
  if (!requests) return print_error(requests.error());
  if (requests->empty()) return show(verb);
  const bool to_be_asked = !verb.yes && !verb.dry_run;
  if (to_be_asked && !is_interactive()) {
    return print_error({Errc::invalid, "nothing was changed", "confirmation needs a terminal",
                        fmt::format("{0} --dry-run  # previews the change\n{0} --yes", verb.line)});
  }
  const auto daemon = require_daemon(verb.socket, "GPU settings need");
  if (!daemon) return print_source_error(daemon.error());
  if (verb.dry_run) return plan(verb, *requests, *daemon);
  if (to_be_asked) {
    if (const auto code = check_confirmation(verb, *requests, *daemon)) return *code;
  }
  return apply_changes(verb, *requests, *daemon);
}

}  // namespace gpuyard::cli
