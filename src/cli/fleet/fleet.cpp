// gpuyard fleet: many machines from one prompt.
#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "cli/fleet/fleet_table.h"
#include "cli/lease/claim_waiter.h"
#include "cli/lease/foreground_job.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "faces/client/local.h"
#include "faces/fleet/ssh_masters.h"
#include "faces/fleet/view.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using Action = FleetVerb::Action;
using fleet::HeardAll;
using fleet::Manner;
using fleet::WithBrief;

// The machines that the user means, and how they are reached.
struct Yards {
  std::vector<fleet::Host> hosts;
  Manner manner;
};

Result<Yards> yards_of(const FleetVerb& verb) {
  const auto environment = Environment::of_process();
  const auto patience = parse_interval(verb.timeout);
  if (!patience) return Error(patience.error()).in("--timeout");
  Yards yards;
  yards.manner.keys = client::keys_of(environment);
  yards.manner.keys.ssh = {.guarded = true, .patience = *patience};
  yards.manner.answer = std::min(yards.manner.answer, *patience);
  std::vector<std::string> words = verb.hosts;
  const std::string usual(environment_variable("GPUYARD_HOSTS"));
  if (words.empty() && !usual.empty()) words = {usual};
  auto hosts = fleet::hosts_of(words, hosts_file(environment));
  if (!hosts) return std::move(hosts).error();
  yards.hosts = *std::move(hosts);
  if (verb.no_master) return yards;
  auto masters = fleet::masters_directory(environment);
  if (masters) {
    yards.manner.keys.ssh.masters = *std::move(masters);
  } else {
    say("note: ssh connections are not kept for reuse: " + masters.error().text());
  }
  return yards;
}

// "98 of 100 have answered; waiting for n7, n9"
template <class Answer>
std::string waiting_text(const fleet::Survey<Answer>& survey, std::size_t done, std::size_t all) {
  constexpr std::size_t kMostNamed = 3;
  const auto names = survey.waited_for(kMostNamed);
  const std::size_t more = all - done - std::min(names.size(), all - done);
  return fmt::format(
      "{} of {} machines have answered; waiting for {}{}. Press Ctrl-C for partial results", done,
      all, fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// What was heard, and the signal that ended the wait for the rest. The threads of the survey may
// then wait for seconds yet: they and their ssh end with this process, before this object does.
template <class Answer>
struct Gathered {
  std::unique_ptr<fleet::Survey<Answer>> survey;
  HeardAll<Answer> heard;
  std::optional<JobSignal> ended_by;
};

template <class Answer>
Gathered<Answer> gather(const Yards& yards, typename fleet::Survey<Answer>::Question question) {
  constexpr auto kSilence = std::chrono::seconds(1);  // until the line says who is waited for
  const JobSignals signals;                           // before any thread
  const TimePoint begin = BootClock::now();
  auto survey =
      std::make_unique<fleet::Survey<Answer>>(yards.hosts, yards.manner, std::move(question));
  ProgressLine line(false);
  while (true) {
    const std::size_t done = survey->crew().done();
    const auto signal = signals.take_end(Duration::zero());
    if (signal || done == yards.hosts.size()) {
      auto heard = survey->heard();
      return {std::move(survey), std::move(heard), signal};
    }
    if (BootClock::now() - begin >= kSilence) {
      line.show(waiting_text(*survey, done, yards.hosts.size()));
    }
    std::array<pollfd, 2> polled{pollfd{survey->crew().bell(), POLLIN, 0},
                                 pollfd{signals.descriptor(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), std::chrono::milliseconds(kSilence).count());
  }
}

int end_by(const JobSignal& signal) {
  if (signal.number == SIGINT) end_as_interrupted(false);
  std::_Exit(kSignalled + signal.number);
}

bool any_answered(const fleet::FleetAnswer& answer) {
  return std::ranges::any_of(answer.hosts, [](const auto& host) { return !host.problem; });
}

// Prints a view as JSON or as `text`, and who did not answer; returns the exit code.
template <class View>
int show(const FleetVerb& verb, const View& view, const Printable& text,
         const std::optional<JobSignal>& ended_by) {
  print(verb.json ? json_line(view) : any_answered(view) ? text : Printable());
  if (!verb.json) print_error(problems_text(view));
  if (ended_by) return end_by(*ended_by);
  return any_answered(view) ? 0 : exit_code_of(Errc::unavailable);
}

int show_nodes(const FleetVerb& verb, const Yards& yards, const Screen& screen) {
  const auto got = gather<fleet::Brief>(
      yards, [&](const auto& daemon) { return fleet::ask_brief(daemon, yards.manner); });
  if (verb.action == Action::nodes) {
    const auto view = fleet::nodes_of(got.heard);
    return show(verb, view, nodes_text(view, screen), got.ended_by);
  }
  const auto gpus = fleet::gpus_of(got.heard);
  if (verb.action == Action::gpus) return show(verb, gpus, gpus_text(gpus, screen), got.ended_by);
  const auto users = fleet::users_of(gpus);
  return show(verb, users, users_text(users, screen), got.ended_by);
}

// Asks each machine one more thing than its brief.
template <class Params, class Answer>
Gathered<WithBrief<Answer>> gather_also(const Yards& yards,
                                        const protocol::Route<Params, Answer>& route,
                                        const Params& parameters = {}) {
  return gather<WithBrief<Answer>>(yards, [&yards, &route, parameters](const auto& daemon) {
    return fleet::ask_with_brief(daemon, yards.manner, route, parameters);
  });
}

// How to take the best offer.
std::string advice_on(const fleet::FleetOffer& best, const LeaseFilters& wanted) {
  std::string claim = std::to_string(wanted.gpus);
  if (!wanted.model.empty()) claim += fmt::format(" --model '{}'", wanted.model);
  if (!wanted.min_free.empty()) claim += fmt::format(" --min-free '{}'", wanted.min_free);
  if (const auto host = client::parse_ssh_url(best.url)) {
    return fmt::format("`ssh {} {} run -n {} -- COMMAND`", host->for_people(),
                       host->program.empty() ? "gpuyard" : host->program, claim);
  }
  return fmt::format("`gpuyard -H {}{} lease take -n {} --for DURATION`",
                     best.url.starts_with('/') ? "unix://" : "", best.url, claim);
}

int show_offers(const FleetVerb& verb, const Yards& yards, const Screen& screen) {
  const auto query = free_query_of(verb.wanted);
  if (!query) return complain(query.error());
  const auto got = gather_also(yards, protocol::kFree, *query);
  const auto view = fleet::offers_of(got.heard);
  const int code = show(verb, view, offers_text(view, screen), got.ended_by);
  if (code == 0 && !view.offers.empty() && screen.terminal && !verb.json) {
    say(advice_on(view.offers.front(), verb.wanted) + " leases the first offer");
  }
  if (code != 0 || !view.offers.empty()) return code;
  return complain({Errc::conflict,
                   fmt::format("no machine can lease {} matching GPU{} now", verb.wanted.gpus,
                               verb.wanted.gpus == 1 ? "" : "s"),
                   "", "gpuyard fleet gpus\ngpuyard fleet queue"});
}

int show_usage(const FleetVerb& verb, const Yards& yards, const Screen& screen) {
  const auto since = seconds_since(verb.since);
  if (!since) return complain(since.error());
  protocol::UsageQuery query;
  query.since_s = *since;
  const bool by_host = verb.by == "host";
  query.by = use_by(by_host ? "user" : verb.by);
  const auto got = gather_also(yards, protocol::kUsage, query);
  const auto view = fleet::usage_of(got.heard, by_host);
  return show(verb, view, usage_table(view.usage, screen), got.ended_by);
}

Result<WithBrief<fleet::Examined>> examine(const http::Endpoint& daemon, const Manner& manner) {
  auto brief = fleet::ask_brief(daemon, manner);
  if (!brief) return std::move(brief).error();
  fleet::Examined examined;
  examined.asked = wall_now();
  auto ready = client::call(daemon, protocol::kReady, {}, {}, manner.answer, fleet::kMostAnswer);
  examined.answered = wall_now();
  if (ready) {
    examined.ready = *std::move(ready);
  } else {
    examined.ready.reason = ready.error().text();
  }
  return WithBrief<fleet::Examined>{*std::move(brief), std::move(examined)};
}

int show_diagnosis(const FleetVerb& verb, const Yards& yards, const Screen& screen) {
  const auto got = gather<WithBrief<fleet::Examined>>(
      yards, [&](const auto& daemon) { return examine(daemon, yards.manner); });
  const auto view = fleet::diagnosis_of(got.heard);
  print(verb.json ? json_line(view) : diagnosis_text(view, screen));
  if (got.ended_by) return end_by(*got.ended_by);
  return view.healthy ? 0 : exit_code_of(Errc::unavailable);
}

int hang_up() {
  fleet::ClosedMasters done;
  for (const std::string& directory : fleet::masters_directories(Environment::of_process())) {
    fleet::ClosedMasters here = fleet::hang_up(directory);
    done.ended += here.ended;
    done.left.insert(done.left.end(), here.left.begin(), here.left.end());
  }
  print(formatted("{} connection{} closed.\n", done.ended, done.ended == 1 ? "" : "s"));
  if (done.left.empty()) return 0;
  return complain({Errc::timed_out, fmt::format("{} did not close", fmt::join(done.left, ", ")),
                   "its ssh process may be stopped",
                   fmt::format("pkill -KILL -f {}  # kills all connections in that directory",
                               shell_word(parent_directory(done.left.front())))});
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
    const Options machines = sub.heading("Machines");
    machines
        .option("--hosts", verb.hosts,
                "Machines: names, URLs, FILE.toml, FILE.json, http_sd:URL or dns:SERVICE")
        .metavar("NAME,...")
        .environment("GPUYARD_HOSTS")
        .default_is("all in hosts.toml")
        .details(
            "Machines, with commas between them or with --hosts for each: names in hosts.toml "
            "or of ssh, URLs as for -H, files like hosts.toml (FILE.toml) or of Prometheus "
            "file_sd (FILE.json), http_sd:URL, or a service in DNS (dns:_gpuyard._tcp.DOMAIN).");
    machines.option("--timeout", verb.timeout, "Time limit for reaching a machine")
        .metavar("DURATION")
        .default_is("10s");
    machines.flag("--no-master", verb.no_master, "Do not keep ssh connections open for reuse");
    add_color(sub, verb.color);
    return sub;
  };
  const auto action = [&](Action what, const char* name, const char* help) {
    const Options sub = common(fleet.verb(name, help).sets(verb.action, what));
    if (what != Action::top) add_json(sub, verb.json);
    return sub;
  };
  add_json(common(fleet), verb.json);
  action(Action::gpus, "gpus", "List the GPUs of all machines")
      .example("gpuyard fleet gpus --hosts n1,n2");
  action(Action::users, "users", "List users and the GPUs they use")
      .formerly("who")
      .example("gpuyard fleet users");
  const Options free =
      action(Action::free, "free", "List machines that can lease you GPUs now, best first");
  add_wanted(free, verb.wanted);
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
  usage.option("--by", verb.by, "Group by user, day, gpu, lease, slurm-job or host")
      .metavar("NAME")
      .default_is("user")
      .one_of({"user", "day", "gpu", "lease", "slurm-job", "host"});
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
  if (verb.action == Action::disconnect) return hang_up();
  const auto yards = yards_of(verb);
  if (!yards) return complain(yards.error());
  const Screen screen = Screen::of_stdout(verb.color);
  switch (verb.action) {
    case Action::nodes:
    case Action::gpus:
    case Action::users:
    case Action::disconnect:
      break;
    case Action::free:
      return show_offers(verb, *yards, screen);
    case Action::queue: {
      const auto got = gather_also(*yards, protocol::kQueue);
      const auto view = fleet::queue_of(got.heard);
      return show(verb, view, claims_text(view, wall_now(), screen), got.ended_by);
    }
    case Action::alerts: {
      const auto got = gather_also(*yards, protocol::kAlerts);
      const auto view = fleet::alerts_of(got.heard);
      return show(verb, view, firing_text(view, wall_now(), screen), got.ended_by);
    }
    case Action::usage:
      return show_usage(verb, *yards, screen);
    case Action::doctor:
      return show_diagnosis(verb, *yards, screen);
    case Action::top:
      return fleet_top(yards->hosts, yards->manner, verb.color);
  }
  return show_nodes(verb, *yards, screen);
}

}  // namespace gpuyard::cli
