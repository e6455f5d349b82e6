// gpuyard lease: GPUs for a time, without a command that holds them.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/lease/claiming.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/lease/leased_run.h"
#include "cli/read/reading.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "client/daemon_client.h"
#include "protocol/routes.h"

namespace gpuyard::cli {
namespace {

using protocol::LeaseAnswer;
using LeaseAction = LeaseVerb::Action;

// Puts ids, UUIDs and paths in single quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Printable environment_text(const LeaseVerb& verb, const protocol::Lease& lease,
                           const http::Endpoint& daemon) {
  Printable text;
  for (const auto& [name, value] : variables_of(lease, daemon)) {
    text += verb.exported ? formatted("export {}={}\n", name, quoted(value))
                          : formatted("{}={}\n", name, value);
  }
  return text;
}

int tell(const Result<LeaseAnswer>& answer, const LeaseVerb& verb) {
  if (!answer) return complain_about_daemon(answer.error());
  if (verb.json) {
    print(json_line(*answer));
  } else {
    print(place_text(verb.socket) + lease_page(answer->lease, wall_now()));
    if (answer->simulated) print("These GPUs are simulated.\n");
  }
  return 0;
}

// Returns what to print of a lease that was just taken.
Result<Printable> taken_text(const LeaseVerb& verb, const http::Endpoint& daemon,
                             const protocol::Lease& lease) {
  if (verb.json) {  // the daemon knows more than the claim's answer says
    const auto answer = client::insist(daemon, protocol::kLease, {lease.id});
    if (!answer) return answer.error();
    return json_line(*answer);
  }
  const Printable environment = environment_text(verb, lease, daemon);
  return verb.exported ? environment : formatted("{}\n", lease.id) + environment;
}

Result<void> tell_taken(const LeaseVerb& verb, const http::Endpoint& daemon,
                        const protocol::Lease& lease) {
  const auto text = taken_text(verb, daemon, lease);
  if (!text) return text.error();
  const auto printed = try_print(*text);
  if (!printed) return Error{Errc::internal, printed.error().message};  // stdout, not a daemon
  return {};
}

// Releases a lease whose id was not printed: nobody would end it before its time.
void give_back(const http::Endpoint& daemon, const protocol::Lease& lease) {
  protocol::ReleaseQuery query;
  query.lease = lease.id;
  query.fence = lease.fence;
  const auto answer = client::call(daemon, protocol::kRelease, query);
  if (!answer) complain(Error(answer.error()).in("releasing lease " + lease.id));
}

int hand_over(const LeaseVerb& verb, const http::Endpoint& daemon, const protocol::Lease& lease) {
  if (const auto told = tell_taken(verb, daemon, lease); !told) {
    give_back(daemon, lease);
    return complain(Error(told.error()).in("no GPUs were leased"));
  }
  if (verb.quiet || verb.json) return 0;
  const bool far = daemon.elsewhere();
  say(fmt::format("leased {}{}{}; to release: `gpuyard{} lease release {}`", gpus_text(lease.gpus),
                  far ? " on " + daemon.text() : "",
                  lease.until ? " until " + local_moment(*lease.until, wall_now()) : "",
                  far ? " -H " + daemon.text() : "", lease.id));
  return 0;
}

int take(const LeaseVerb& verb, const http::Endpoint& daemon) {
  auto wish = wish_of(verb.wanted);
  if (!wish) return complain(wish.error());
  const auto ttl = seconds_of(verb.ttl, "--ttl");
  if (!ttl) return complain(ttl.error());
  wish->binding = "detached";
  wish->ttl_s = *ttl;
  const JobSignals signals;  // before any thread
  const auto claimed = Claiming(daemon, *std::move(wish), signals, verb.quiet).wait();
  if (const int* code = std::get_if<int>(&claimed)) return *code;
  const auto& lease = std::get<protocol::Lease>(claimed);
  if (const auto signal = signals.take_end(Duration::zero())) {
    give_back(daemon, lease);
    if (signal->number == SIGINT && signal->from_terminal) end_as_interrupted(false);
    return kSignalled + signal->number;
  }
  return hand_over(verb, daemon, lease);
}

int renew(const LeaseVerb& verb, const http::Endpoint& daemon, const NamedLease& named) {
  const auto ttl = seconds_of(verb.ttl, "--ttl");
  if (!ttl) return complain(ttl.error());
  return tell(client::insist(daemon, protocol::kRenew, {named.id}, {*ttl, named.fence}), verb);
}

int release(const LeaseVerb& verb, const http::Endpoint& daemon, const NamedLease& named) {
  protocol::ReleaseQuery query;
  query.lease = named.id;
  if (verb.force) {
    query.force = true;
    query.reason = verb.reason;
  } else {
    query.fence = named.fence;
  }
  if (!verb.signal.empty()) query.signal = verb.signal;
  return tell(client::insist(daemon, protocol::kRelease, query), verb);
}

int adopt(const LeaseVerb& verb, const http::Endpoint& daemon) {
  protocol::AdoptWish wish;
  wish.pid = verb.pid;
  if (!verb.wanted.note.empty()) wish.note = verb.wanted.note;
  return tell(client::insist(daemon, protocol::kAdopt, {}, wish), verb);
}

Options add_action(Options lease, LeaseVerb& verb, LeaseAction what, const char* name,
                   const char* summary) {
  const Options sub = lease.verb(name, summary).sets(verb.action, what);
  add_socket(sub, verb.socket);
  sub.flag("--json", verb.json, "Print JSON");
  return sub;
}

Options add_action_on_one(Options lease, LeaseVerb& verb, LeaseAction what, const char* name,
                          const char* summary) {
  const Options sub = add_action(lease, verb, what, name, summary);
  sub.option("id", verb.id, "Lease ID, or the unique beginning of one [env: GPUYARD_LEASE]")
      .type_name("ID");
  return sub;
}

void add_ttl(Options sub, LeaseVerb& verb) {
  sub.option("--ttl", verb.ttl, "Time until the lease expires unless renewed, e.g. 30m, 8h or 2d")
      .type_name("TIME")
      .required();
}

void add_take(Options lease, LeaseVerb& verb) {
  const Options take =
      add_action(lease, verb, LeaseAction::take, "take", "Lease GPUs for a fixed time");
  add_filters(take, verb.wanted);
  add_ttl(take, verb);
  take.flag("--export", verb.exported, "Print export statements for a shell's eval")
      .excludes(take.find("--json"));
  take.flag("--quiet", verb.quiet, "Print only warnings and errors");
}

void add_release(Options lease, LeaseVerb& verb) {
  const Options release = add_action_on_one(lease, verb, LeaseAction::release, "release",
                                            "Release a lease, or cancel a waiting claim");
  const Option force = release.flag(
      "--force", verb.force,
      "Release another user's lease, or one that does not drain (administrators only)");
  const Option reason =
      release.option("--reason", verb.reason, "Reason, shown to the holder and logged")
          .type_name("TEXT")
          .needs(force);
  force.needs(reason);
  release
      .option("--signal", verb.signal,
              "Signal to send to processes still running: TERM, KILL, INT or HUP")
      .type_name("NAME")
      .one_of({"TERM", "KILL", "INT", "HUP"});
}

}  // namespace

Options add_lease(Options program, LeaseVerb& verb) {
  const Options lease = program.verb("lease", "Lease GPUs without running a command");
  lease.requires_verb();
  add_take(lease, verb);
  add_ttl(add_action_on_one(lease, verb, LeaseAction::renew, "renew", "Extend a lease"), verb);
  add_release(lease, verb);
  const Options adopt = add_action(lease, verb, LeaseAction::adopt, "adopt",
                                   "Make a lease of the GPUs that a process and its children use");
  adopt.option("--pid", verb.pid, "The process, or the launcher of your processes")
      .positive()
      .required();
  add_note(adopt, verb.wanted.note);
  add_action_on_one(lease, verb, LeaseAction::show, "show", "Show one lease");
  return lease;
}

int run(const LeaseVerb& verb) {
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  if (verb.action == LeaseAction::take) return take(verb, *daemon);
  if (verb.action == LeaseAction::adopt) return adopt(verb, *daemon);
  const auto named = named_lease(verb.id);
  if (!named) return complain(named.error());
  if (verb.action == LeaseAction::renew) return renew(verb, *daemon, *named);
  if (verb.action == LeaseAction::release) return release(verb, *daemon, *named);
  return tell(client::insist(*daemon, protocol::kLease, {named->id}), verb);
}

// gpuyard leases, queue, usage, cordon and uncordon.
namespace {

// Asks, and prints the answer as JSON or as `table` has it.
template <class AnyVerb, class Ask, class Table>
int show(const AnyVerb& verb, Ask&& ask, Table&& table) {
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  const auto answer = ask(*daemon);
  if (!answer) return complain_about_daemon(answer.error());
  print(verb.json ? json_line(*answer) : place_text(verb.socket) + table(*answer));
  return 0;
}

Result<protocol::UsageQuery> query_of(const UsageVerb& verb) {
  const auto since = seconds_since(verb.since);
  if (!since) return since.error();
  protocol::UsageQuery query;
  query.since_s = *since;
  query.by = use_by(verb.by);
  if (verb.csv) query.format = protocol::TextFormat::csv;
  return query;
}

// Prints the daemon's CSV unchanged.
int print_csv(const http::Endpoint& daemon, const protocol::UsageQuery& query) {
  const auto& route = protocol::kUsage;
  const auto text =
      client::exchange(daemon, route, client::target_of(route.pattern, named_values(query)), "",
                       client::kAnswerDeadline, http::kDefaultMaxBody, client::Patience::insists);
  if (!text) return complain_about_daemon(text.error());
  print(Printable::lines(*text));
  return 0;
}

Options add_cordoning(Options program, CordonVerb& verb, const char* name, const char* summary) {
  const Options sub = program.verb(name, summary);
  add_socket(sub, verb.socket);
  add_gpus(sub, verb.gpus, "GPUs: indexes, UUIDs or PCI addresses, or all").required();
  sub.flag("--json", verb.json, "Print JSON");
  return sub;
}

}  // namespace

Options add_leases(Options program, LeasesVerb& verb) {
  const Options leases = program.verb("leases", "List leases and their holders");
  add_showing(leases, verb.socket, verb.json, verb.color);
  return leases;
}

Options add_queue(Options program, QueueVerb& verb) {
  const Options queue = program.verb("queue", "List waiting claims and why they wait");
  add_showing(queue, verb.socket, verb.json, verb.color);
  return queue;
}

Options add_free(Options program, FreeVerb& verb) {
  const Options free =
      program.verb("free", "List GPUs you could lease now; exit code 7 if too few");
  add_wanted(free, verb.wanted);
  add_socket(free, verb.socket);
  free.flag("--json", verb.json, "Print JSON");
  return free;
}

Options add_cordon(Options program, CordonVerb& verb) {
  const Options cordon = add_cordoning(program, verb, "cordon", "Withhold GPUs from new leases");
  cordon.option("--reason", verb.reason, "Reason, shown to waiting users")
      .type_name("TEXT")
      .required();
  return cordon;
}

Options add_uncordon(Options program, CordonVerb& verb) {
  verb.lift = true;
  const Options uncordon =
      add_cordoning(program, verb, "uncordon", "Allow leases of cordoned GPUs again");
  const auto reason =
      uncordon.option("--reason", verb.reason, "Reason for --force, for the journal")
          .type_name("TEXT");
  uncordon
      .flag("--force", verb.force,
            "Lease the GPUs although their state or use is unknown, until that changes")
      .needs(reason);
  return uncordon;
}

Options add_usage(Options program, UsageVerb& verb) {
  const Options usage = program.verb("usage", "Show GPU-hours and energy by user");
  add_showing(usage, verb.socket, verb.json, verb.color);
  usage.option("--since", verb.since, "Since 24h, 7d, 30d, 02:10 or 2026-01-31 (7d)")
      .type_name("TIME");
  usage.option("--by", verb.by, "Group by user, day, gpu, lease or slurm-job [default: user]")
      .type_name("WHAT")
      .one_of({"user", "day", "gpu", "lease", "slurm-job"});
  usage.flag("--csv", verb.csv, "Print CSV").excludes(usage.find("--json"));
  return usage;
}

int run(const LeasesVerb& verb) {
  return show(
      verb, [](const auto& daemon) { return client::insist(daemon, protocol::kLeases); },
      [&](const protocol::Leases& leases) {
        return lease_table(leases, wall_now(), Screen::of_stdout(verb.color));
      });
}

int run(const QueueVerb& verb) {
  return show(
      verb, [](const auto& daemon) { return client::insist(daemon, protocol::kQueue); },
      [&](const protocol::Queue& queue) {
        return queue_text(queue, wall_now(), Screen::of_stdout(verb.color));
      });
}

int run(const FreeVerb& verb) {
  const auto query = free_query_of(verb.wanted);
  if (!query) return complain(query.error());
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  const auto answer = client::insist(*daemon, protocol::kFree, *query);
  if (!answer) return complain_about_daemon(answer.error());
  std::vector<std::uint32_t> free;
  for (const protocol::FreeGpu& gpu : answer->gpus) free.push_back(gpu.index);
  if (verb.json) {
    print(json_line(*answer));
  } else if (!free.empty()) {
    print(formatted("{}\n", fmt::join(free, ",")));
  }
  if (answer->enough) return 0;
  return complain(
      {Errc::conflict,
       fmt::format("{} of {} GPUs are free, {} claims are waiting: {}; to wait for them, use "
                   "`gpuyard {} -n {}`",
                   free.size(), answer->capacity, answer->waiting, answer->why,
                   daemon->elsewhere() ? "lease take --ttl TIME" : "run", verb.wanted.gpus)});
}

int run(const UsageVerb& verb) {
  const auto query = query_of(verb);
  if (!query) return complain(query.error());
  if (verb.csv) {
    const auto daemon = lease_daemon(verb.socket);
    return daemon ? print_csv(*daemon, *query) : complain_about_daemon(daemon.error());
  }
  return show(
      verb, [&](const auto& daemon) { return client::insist(daemon, protocol::kUsage, *query); },
      [&](const protocol::Usage& usage) {
        return usage_table(usage, Screen::of_stdout(verb.color));
      });
}

int run(const CordonVerb& verb) {
  const auto ask = [&](const http::Endpoint& daemon) {
    if (verb.force) {
      return client::insist(daemon, protocol::kOverrideWithholding, {verb.gpus}, {verb.reason});
    }
    if (verb.lift) return client::insist(daemon, protocol::kUncordon, {verb.gpus});
    return client::insist(daemon, protocol::kCordon, {verb.gpus}, {verb.reason});
  };
  return show(verb, ask, [&](const protocol::Cordoned& cordoned) {
    const Printable text = withheld_text(cordoned.withheld, wall_now());
    return text.empty() ? "These GPUs can be leased again.\n" : text;
  });
}

}  // namespace gpuyard::cli
