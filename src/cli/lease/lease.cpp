// gpuyard lease: GPUs for a time, without a command that holds them.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/try.h"
#include "cli/control/control_daemon.h"
#include "cli/lease/claim_waiter.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/lease/leased_run.h"
#include "cli/lease/signalling.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

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

int print_lease(const Result<LeaseAnswer>& answer, const LeaseVerb& verb) {
  if (!answer) return print_source_error(answer.error());
  if (verb.json) {
    print(json_line(*answer));
  } else {
    print(host_heading(verb.socket) + lease_page(answer->lease, wall_now()));
    if (answer->simulated) print("These GPUs are simulated.\n");
  }
  return 0;
}

// Returns what to print of a lease that was just taken.
Result<Printable> taken_text(const LeaseVerb& verb, const http::Endpoint& daemon,
                             const protocol::Lease& lease) {
  if (verb.json) {  // the daemon knows more than the claim's answer says
    const auto reply = client::call_with_retry(daemon, protocol::kLease, {lease.id});
    if (!reply) return reply.error();
    return json_line(*reply);
  }
  const Printable environment = environment_text(verb, lease, daemon);
  return verb.exported ? environment : formatted("{}\n", lease.id) + environment;
}

Result<void> print_taken(const LeaseVerb& verb, const http::Endpoint& daemon,
                         const protocol::Lease& lease) {
  const auto text = GPUYARD_TRY(taken_text(verb, daemon, lease));
  const auto printed = try_print(text);
  if (printed) return {};
  Error error = printed.error();
  error.code = Errc::internal;  // of stdout, not of a daemon
  return error;
}

// Releases a lease whose id was not printed: nobody would end it before its time.
void return_lease(const http::Endpoint& daemon, const protocol::Lease& lease) {
  protocol::ReleaseQuery query;
  query.lease = lease.id;
  query.fence = lease.fence;
  const auto reply = client::call(daemon, protocol::kRelease, query);
  if (!reply) print_error(Error(reply.error()).in("releasing lease " + lease.id));
}

int deliver_lease(const LeaseVerb& verb, const http::Endpoint& daemon,
                  const protocol::Lease& lease) {
  if (const auto printed = print_taken(verb, daemon, lease); !printed) {
    return_lease(daemon, lease);
    return print_error(Error(printed.error()).in("no GPUs were leased"));
  }
  if (verb.quiet || verb.json) return 0;
  const bool far = daemon.is_remote();
  print_note(fmt::format("leased {}{}{}; to release: `gpuyard{} lease release {}`",
                         gpus_text(lease.gpus), far ? " on " + daemon.text() : "",
                         lease.until ? " until " + zoned_moment(*lease.until, wall_now()) : "",
                         far ? " -H " + daemon.text() : "", lease.id));
  return 0;
}

int take(const LeaseVerb& verb, const http::Endpoint& daemon) {
  const JobSignals signals;  // before any thread
  const auto claimed =
      ClaimWaiter(daemon, new_claim(verb.wanted, "detached"),
                  fmt::format("gpuyard lease take -n {} --for {}", waiting_words(verb.wanted),
                              quote_shell_word(verb.wanted.typed_value("--for"))),
                  signals, verb.quiet)
          .wait();
  if (const int* code = std::get_if<int>(&claimed)) return *code;
  const auto& lease = std::get<protocol::Lease>(claimed);
  if (const auto signal = signals.take_termination(Duration::zero())) {
    return_lease(daemon, lease);
    if (signal->number == SIGINT && signal->from_terminal) exit_by_sigint(false);
    return kExitSignalBase + signal->number;
  }
  return deliver_lease(verb, daemon, lease);
}

int renew(const LeaseVerb& verb, const http::Endpoint& daemon, const NamedLease& named) {
  const protocol::RenewRequest request{*verb.wanted.request.ttl_s, named.fence};
  return print_lease(client::call_with_retry(daemon, protocol::kRenew, {named.id}, request), verb);
}

int print_released(const Result<protocol::ReleaseAnswer>& answer, const LeaseVerb& verb) {
  if (!answer) return print_lease(answer.error(), verb);
  return print_lease(static_cast<const LeaseAnswer&>(*answer), verb);
}

// The daemon looks for the processes before it answers.
constexpr Duration kSignalTimeout = std::chrono::seconds(5);

int release(const LeaseVerb& verb, const http::Endpoint& daemon, const NamedLease& named) {
  protocol::ReleaseQuery query;
  query.lease = named.id;
  if (verb.force) {
    query.force = true;
    query.reason = verb.reason;
  } else {
    query.fence = named.fence;
  }
  if (verb.signal.empty()) {
    return print_released(client::call_with_retry(daemon, protocol::kRelease, query), verb);
  }
  query.signal = verb.signal;
  const auto reply = client::call_with_retry(daemon, protocol::kRelease, query, {}, kSignalTimeout);
  if (!reply || !reply->unsignalled) return print_released(reply, verb);
  const std::string& id = reply->lease.id;
  const auto sent = send_remaining_signals(daemon, *reply->unsignalled, id);
  const auto now = client::call(daemon, protocol::kLease, {id});
  const int code = now ? print_lease(now, verb) : print_released(reply, verb);
  return sent ? code : print_error(sent.error());
}

int adopt(const LeaseVerb& verb, const http::Endpoint& daemon) {
  protocol::AdoptRequest request;
  request.pid = verb.pid;
  request.note = verb.wanted.request.note;
  return print_lease(client::call_with_retry(daemon, protocol::kAdopt, {}, request), verb);
}

Options add_action(Options lease, LeaseVerb& verb, LeaseAction what, const char* name,
                   const char* summary) {
  const Options sub = lease.verb(name, summary).sets(verb.action, what);
  add_socket(sub, verb.socket);
  add_json(sub, verb.json);
  return sub;
}

Options add_action_on_one(Options lease, LeaseVerb& verb, LeaseAction what, const char* name,
                          const char* summary) {
  const Options sub = add_action(lease, verb, what, name, summary);
  sub.option("id", verb.id, "Lease ID, or the unique beginning of one")
      .metavar("ID")
      .environment("GPUYARD_LEASE");
  return sub;
}

void add_take(Options lease, LeaseVerb& verb) {
  const Options take =
      add_action(lease, verb, LeaseAction::take, "take", "Lease GPUs for a fixed time");
  take.explain(
          "Waits in the queue until enough GPUs are free, then prints the lease ID and the "
          "environment variables for these GPUs, one per line. The lease ends after --for unless "
          "you renew it.")
      .example("eval \"$(gpuyard lease take -n 1 --for 4h --export)\"")
      .example("gpuyard lease renew --for 4h")
      .example("gpuyard lease release");
  const Options own = take.heading("Lease");
  add_ttl(own, verb.wanted);
  add_note(own, verb.wanted);
  add_lease_filters(take, verb.wanted);
  const Options output = take.heading("Output");
  output.flag("--export", verb.exported, "Print export statements for a shell's eval")
      .excludes(take.find("--json"));
  add_quiet(output, verb.quiet);
}

void add_renew(Options lease, LeaseVerb& verb) {
  const Options renew =
      add_action_on_one(lease, verb, LeaseAction::renew, "renew", "Extend a lease");
  add_ttl(renew, verb.wanted);
  renew.example("gpuyard lease renew --for 4h", "Extend the lease of this shell")
      .example("gpuyard lease renew 3f2a --for 30m");
}

void add_release(Options lease, LeaseVerb& verb) {
  const Options release = add_action_on_one(lease, verb, LeaseAction::release, "release",
                                            "Release a lease, or cancel a waiting claim");
  const Option force = release.flag(
      "--force", verb.force,
      "Release another user's lease, or one that does not drain (administrators only)");
  const Option reason =
      release.option("--reason", verb.reason, "Reason, shown to the holder and logged")
          .metavar("TEXT")
          .needs(force);
  force.needs(reason);
  release
      .option("--signal", verb.signal,
              "Signal to send to processes still running: TERM, KILL, INT or HUP")
      .metavar("NAME")
      .one_of({"TERM", "KILL", "INT", "HUP"});
  release.example("gpuyard lease release", "Release the lease of this shell")
      .example("gpuyard lease release 3f2a --signal TERM")
      .example("gpuyard lease release 3f2a --force --reason \"user has left\"");
}

}  // namespace

Options add_lease(Options program, LeaseVerb& verb) {
  const Options lease = program.verb("lease", "Lease GPUs without running a command");
  lease.requires_verb()
      .example("eval \"$(gpuyard lease take -n 1 --for 4h --export)\"")
      .example("gpuyard lease list")
      .example("gpuyard lease renew --for 4h")
      .example("gpuyard lease release");
  const Options list = lease.verb("list", kLeasesSummary).sets(verb.action, LeaseAction::list);
  add_output_options(list, verb);
  list.example("gpuyard lease list");
  add_take(lease, verb);
  add_renew(lease, verb);
  add_release(lease, verb);
  const Options adopt = add_action(lease, verb, LeaseAction::adopt, "adopt",
                                   "Lease the GPUs that a process and its children use");
  adopt.option("--pid", verb.pid, "The process, or the launcher of your processes")
      .metavar("PID")
      .positive()
      .required();
  add_note(adopt, verb.wanted);
  adopt.example("gpuyard lease adopt --pid 4711");
  add_action_on_one(lease, verb, LeaseAction::show, "show", "Show one lease")
      .example("gpuyard lease show 3f2a");
  return lease;
}

int run(const LeaseVerb& verb) {
  if (verb.action == LeaseAction::list) {
    return run(LeasesVerb{static_cast<const AnswerOptions&>(verb)});
  }
  const auto daemon = require_daemon(verb.socket, "leases need");
  if (!daemon) return print_source_error(daemon.error());
  if (verb.action == LeaseAction::take) return take(verb, *daemon);
  if (verb.action == LeaseAction::adopt) return adopt(verb, *daemon);
  const auto named = named_lease(verb.id);
  if (!named) return print_error(named.error());
  if (verb.action == LeaseAction::renew) return renew(verb, *daemon, *named);
  if (verb.action == LeaseAction::release) return release(verb, *daemon, *named);
  return print_lease(client::call_with_retry(*daemon, protocol::kLease, {named->id}), verb);
}

}  // namespace gpuyard::cli
