// gpuyard fleet: many machines from one prompt.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/try.h"
#include "cli/fleet/fleet_query.h"
#include "cli/fleet/fleet_table.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/output.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/slurm/cluster_verbs.h"
#include "cli/slurm/through_slurm.h"
#include "faces/fleet/login_facts.h"
#include "faces/fleet/ssh_masters.h"
#include "faces/fleet/view.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using Action = FleetVerb::Action;
using fleet::FanOutOptions;
using fleet::HostReplies;
using fleet::ReplyWithBrief;

bool has_answer(const fleet::FleetAnswer& answer) {
  return std::ranges::any_of(answer.hosts, [](const auto& host) { return !host.problem; });
}

// Prints a view as JSON or as `text`, and who did not answer; returns the exit code.
template <class View>
int show(const FleetVerb& verb, const View& view, const Printable& text,
         const std::optional<JobSignal>& ended_by) {
  print(verb.json ? json_line(view) : has_answer(view) ? text : Printable());
  if (!verb.json) print_stderr(problems_text(view));
  if (ended_by) return exit_by_signal(*ended_by);
  return has_answer(view) ? 0 : exit_code_of(Errc::unavailable);
}

int show_nodes(const FleetVerb& verb, const FleetTarget& target, const Screen& screen) {
  const auto got = fan_out_query<fleet::Brief>(
      target, [&](const auto& daemon) { return fleet::fetch_brief(daemon, target.options); });
  if (verb.action == Action::nodes) {
    const auto view = fleet::nodes_of(got.replies);
    return show(verb, view, nodes_text(view, screen), got.end_signal);
  }
  const auto gpus = fleet::gpus_of(got.replies);
  if (verb.action == Action::gpus) return show(verb, gpus, gpus_text(gpus, screen), got.end_signal);
  const auto users = fleet::users_of(gpus);
  return show(verb, users, users_text(users, screen), got.end_signal);
}

// Asks each machine one more thing than its brief.
template <class Params, class Answer>
FanOutResult<ReplyWithBrief<Answer>> fan_out_with_brief(
    const FleetTarget& target, const protocol::Route<Params, Answer>& route,
    const Params& parameters = {}) {
  return fan_out_query<ReplyWithBrief<Answer>>(
      target, [&target, &route, parameters](const auto& daemon) {
        return fleet::fetch_with_brief(daemon, target.options, route, parameters);
      });
}

// The command that takes the best offer.
std::string offer_advice(const fleet::FleetOffer& best, const ClaimOptions& wanted) {
  std::string claim = std::to_string(*wanted.request.gpus);
  if (wanted.request.model) claim += fmt::format(" --model '{}'", *wanted.request.model);
  const std::string min_free = wanted.typed_value("--min-free");
  if (!min_free.empty()) claim += fmt::format(" --min-free '{}'", min_free);
  if (const auto host = client::parse_ssh_url(best.url)) {
    return fmt::format("`ssh {} {} run -n {} -- COMMAND`", host->ssh_arguments(),
                       host->program.empty() ? "gpuyard" : host->program, claim);
  }
  return fmt::format("`gpuyard -H {}{} lease take -n {} --for DURATION`",
                     best.url.starts_with('/') ? "unix://" : "", best.url, claim);
}

int show_offers(const FleetVerb& verb, const FleetTarget& target, const Screen& screen) {
  const auto got = fan_out_with_brief(target, protocol::kFree, free_query_of(verb.wanted));
  const auto view = fleet::offers_of(got.replies);
  const int code = show(verb, view, offers_text(view, screen), got.end_signal);
  if (code == 0 && !view.offers.empty() && screen.terminal && !verb.json) {
    print_note(offer_advice(view.offers.front(), verb.wanted) + " leases the first offer");
  }
  if (code != 0 || !view.offers.empty()) return code;
  return print_error(
      {Errc::conflict,
       fmt::format("no machine can lease {} matching GPU{} now", *verb.wanted.request.gpus,
                   verb.wanted.request.gpus == 1 ? "" : "s"),
       "", "gpuyard fleet gpus\ngpuyard fleet queue"});
}

// Whether Slurm is to list the free GPUs. Machines that the user names answer for themselves.
bool is_cluster_free(const FleetVerb& verb) {
  if (verb.action != Action::free) return false;
  const bool named = !verb.hosts.empty() && verb.through == Through::configured;
  return !named && slurm::is_through_slurm(verb.through);
}

int show_usage(const FleetVerb& verb, const FleetTarget& target, const Screen& screen) {
  const auto since = seconds_since(verb.since);
  if (!since) return print_error(since.error());
  protocol::UsageQuery query;
  query.since_s = *since;
  const bool by_host = verb.by == "host";
  query.by = usage_grouping_of(by_host ? "user" : verb.by);
  const auto got = fan_out_with_brief(target, protocol::kUsage, query);
  const auto view = fleet::usage_of(got.replies, by_host);
  return show(verb, view, usage_table(view.usage, screen), got.end_signal);
}

Result<std::optional<std::string>> fetch_slurm_version(const http::Endpoint& daemon,
                                                       const FanOutOptions& options) {
  auto inventory =
      client::call(daemon, protocol::kHost, {}, {}, options.reply_timeout, fleet::kMaxReplyBytes);
  if (inventory) return std::move(inventory->machine.slurm_version);
  if (inventory.error().code != Errc::not_found) return inventory.error();
  return Error{Errc::unsupported,
               fmt::format("its gpuyard is too old and lacks {}", protocol::kHost.pattern)};
}

Result<ReplyWithBrief<fleet::DoctorReply>> run_doctor(const http::Endpoint& daemon,
                                                      const FanOutOptions& options,
                                                      const Result<std::string>& credential) {
  auto brief = GPUYARD_TRY(fleet::fetch_brief(daemon, options));
  fleet::DoctorReply examined;
  examined.requested_at = wall_now();
  auto ready =
      client::call(daemon, protocol::kReady, {}, {}, options.reply_timeout, fleet::kMaxReplyBytes);
  examined.replied_at = wall_now();
  if (ready) {
    examined.readiness = *std::move(ready);
  } else {
    examined.readiness.reason = ready.error().text();
  }
  examined.slurm_version = fetch_slurm_version(daemon, options);
  examined.login = fleet::check_login(daemon, brief.host, options, credential);
  return ReplyWithBrief<fleet::DoctorReply>{std::move(brief), std::move(examined)};
}

int show_diagnosis(const FleetVerb& verb, const FleetTarget& target, const Screen& screen) {
  const auto credential = fleet::make_munge_credential();
  const auto got = fan_out_query<ReplyWithBrief<fleet::DoctorReply>>(
      target, [&](const auto& daemon) { return run_doctor(daemon, target.options, credential); });
  const auto view = fleet::diagnosis_of(got.replies);
  print(verb.json ? json_line(view) : diagnosis_text(view, screen));
  if (got.end_signal) return exit_by_signal(*got.end_signal);
  return view.healthy ? 0 : exit_code_of(Errc::unavailable);
}

// Writes every host, whether it responds or not: Prometheus then reports those that do not. A list
// that may be incomplete never replaces the file.
int write_targets(const std::string& file, const std::vector<fleet::Host>& hosts) {
  const auto unknown =
      std::ranges::find_if(hosts, [](const fleet::Host& host) { return !host.problem.empty(); });
  if (unknown != hosts.end()) {
    return print_error({Errc::unavailable, fmt::format("{}: {}", unknown->name, unknown->problem),
                        fmt::format("{} was not changed", printable(file))});
  }
  const fleet::TargetList list = fleet::targets_of(hosts);
  for (const std::string& name : list.left_out) {
    print_note(fmt::format("note: {} has no address on the network, and is left out", name));
  }
  if (list.targets == 0) {
    return print_error({Errc::not_found, "no machine that Prometheus could reach",
                        fmt::format("{} was not changed", printable(file))});
  }
  constexpr unsigned kReadableByAll = 0644;
  const auto written = replace_file(file, list.json, kReadableByAll);
  if (!written) return print_error(Error(written.error()).in("--write-file-sd"));
  print(formatted("{} target{} written to {}.\n", list.targets, list.targets == 1 ? "" : "s",
                  printable(file)));
  return 0;
}

int disconnect_hosts() {
  fleet::ClosedMasters done;
  for (const std::string& directory : fleet::masters_directories(Environment::current())) {
    fleet::ClosedMasters here = fleet::close_masters(directory);
    done.closed += here.closed;
    done.remaining.insert(done.remaining.end(), here.remaining.begin(), here.remaining.end());
  }
  print(formatted("{} connection{} closed.\n", done.closed, done.closed == 1 ? "" : "s"));
  if (done.remaining.empty()) return 0;
  return print_error({Errc::timed_out,
                      fmt::format("{} did not close", fmt::join(done.remaining, ", ")),
                      "its ssh process may be stopped",
                      fmt::format("pkill -KILL -f {}  # kills all connections in that directory",
                                  quote_shell_word(parent_directory(done.remaining.front())))});
}

}  // namespace

Options add_fleet(Options program, FleetVerb& verb) {
  const Options fleet = program.verb("fleet", "Show the GPUs, queues and alerts of many machines");
  fleet
      .explain(
          "Without a command, lists the machines. Those that do not respond within --timeout are "
          "named, with the reason.")
      .example("gpuyard fleet")
      .example("gpuyard fleet gpus --hosts n1,n2,ssh://alice@lab")
      .example("gpuyard fleet free -n 2 --min-free 40G")
      .example("gpuyard fleet top");
  const auto common = [&](Options sub) {
    add_machine_options(sub, verb);
    add_color(sub, verb.color);
    return sub;
  };
  const auto action = [&](Action what, const char* name, const char* help) {
    const Options sub = common(fleet.verb(name, help).sets(verb.action, what));
    if (what != Action::top) add_json(sub, verb.json);
    return sub;
  };
  add_json(common(fleet), verb.json);
  fleet.option("--write-file-sd", verb.file_sd, "Write the machines as Prometheus targets to FILE")
      .metavar("FILE")
      .details(
          "Write the machines as Prometheus targets (file_sd) to FILE, and query none. Machines "
          "that are down are in it. FILE is replaced at once, and is not changed if the list of "
          "machines cannot be read.");
  fleet.example("gpuyard fleet --write-file-sd /etc/prometheus/gpuyard.json");
  action(Action::gpus, "gpus", "List the GPUs of all machines")
      .example("gpuyard fleet gpus --hosts n1,n2");
  action(Action::users, "users", "List users and the GPUs they use")
      .formerly("who")
      .example("gpuyard fleet users");
  const Options free =
      action(Action::free, "free", "List machines that can lease you GPUs now, best first");
  add_claim_options(free, verb.wanted);
  add_through(free, verb.through, kThroughHelp);
  free.example("gpuyard fleet free -n 2 --model H100")
      .exit_codes("Exit code 7: no machine can lease these GPUs now");
  action(Action::queue, "queue", "List waiting claims of all machines")
      .example("gpuyard fleet queue");
  action(Action::alerts, "alerts", "List firing alerts of all machines")
      .example("gpuyard fleet alerts --json");
  const Options usage = action(Action::usage, "usage", "Show GPU-hours and energy by user");
  usage.option("--since", verb.since, "Start: 7d (ago), 02:10 or 2026-01-31 12:00")
      .metavar("TIME")
      .default_is("7d");
  usage.option("--by", verb.by, "Group by user, day, gpu, lease, slurm-job, pod, namespace or host")
      .metavar("NAME")
      .default_is("user")
      .one_of({"user", "day", "gpu", "lease", "slurm-job", "pod", "namespace", "host"});
  usage.example("gpuyard fleet usage --by host --since 30d");
  action(Action::doctor, "doctor", "Find machines that differ from the others or do not respond")
      .example("gpuyard fleet doctor")
      .exit_codes("Exit code 5: a machine differs or is unreachable");
  action(Action::top, "top", "Show a live view of the machines")
      .example("gpuyard fleet top --hosts n1,n2");
  fleet.verb("disconnect", "Close ssh connections kept open for reuse")
      .formerly("hang-up")
      .sets(verb.action, Action::disconnect)
      .example("gpuyard fleet disconnect");
  return fleet;
}

int run(const FleetVerb& verb) {
  if (verb.action == Action::disconnect) return disconnect_hosts();
  if (is_cluster_free(verb)) {
    return slurm::show_cluster_free(verb.wanted, verb.through, verb.json, verb.color);
  }
  const auto target = fleet_target_of(verb);
  if (!target) return print_error(target.error());
  if (!verb.file_sd.empty()) return write_targets(verb.file_sd, target->hosts);
  const Screen screen = Screen::of_stdout(verb.color);
  switch (verb.action) {
    case Action::nodes:
    case Action::gpus:
    case Action::users:
    case Action::disconnect:
      break;
    case Action::free:
      return show_offers(verb, *target, screen);
    case Action::queue: {
      const auto got = fan_out_with_brief(*target, protocol::kQueue);
      const auto view = fleet::queue_of(got.replies);
      return show(verb, view, claims_text(view, wall_now(), screen), got.end_signal);
    }
    case Action::alerts: {
      const auto got = fan_out_with_brief(*target, protocol::kAlerts);
      const auto view = fleet::alerts_of(got.replies);
      return show(verb, view, firing_text(view, wall_now(), screen), got.end_signal);
    }
    case Action::usage:
      return show_usage(verb, *target, screen);
    case Action::doctor:
      return show_diagnosis(verb, *target, screen);
    case Action::top:
      return fleet_top(target->hosts, target->options, verb.color);
  }
  return show_nodes(verb, *target, screen);
}

}  // namespace gpuyard::cli
