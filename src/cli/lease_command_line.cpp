// The verbs of leasing: apart, because they are a family.
#include "cli/lease_command_line.h"

#include <CLI/CLI.hpp>

#include "cli/color_option.h"

namespace gpuyard::cli {
namespace {

using Action = LeaseVerb::Action;

constexpr std::int64_t kMostGpusOfLease = 256;

template <class AnyVerb>
void add_socket(CLI::App* sub, AnyVerb& verb) {
  sub->add_option("--socket", verb.socket,
                  "Ask the daemon at PATH or ADDRESS:PORT, and nobody else");
}

// Of a verb that shows a table.
template <class AnyVerb>
CLI::App* add_showing(CLI::App& app, Verb& chosen, AnyVerb& verb, const char* name,
                      const char* summary) {
  auto* sub = app.add_subcommand(name, summary);
  add_socket(sub, verb);
  sub->add_flag("--json", verb.json, "Print JSON");
  add_color(sub, verb.color);
  sub->callback([&chosen, &verb] { chosen = verb; });
  return sub;
}

void add_note(CLI::App* sub, LeaseFilters& wanted) {
  sub->add_option("--note", wanted.note, "What it is for, for others to read")->type_name("TEXT");
}

void add_filters(CLI::App* sub, LeaseFilters& wanted) {
  sub->add_option("-n,--gpus", wanted.gpus, "How many GPUs (1)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostGpusOfLease));
  sub->add_option("--min-free", wanted.min_free, "With so much free memory on each: 20G")
      ->type_name("SIZE");
  sub->add_option("--model", wanted.model, "Whose name has this in it: H100")->type_name("NAME");
  sub->add_option("--among", wanted.among, "Only these: indexes, UUIDs or PCI addresses")
      ->type_name("GPU,...");
  sub->add_option("--max-time", wanted.max_time,
                  "You need them no longer than 2h: who says so waits less")
      ->type_name("TIME");
  auto* wait = sub->add_option("--wait", wanted.wait, "Wait no longer than 10m; else for ever")
                   ->type_name("TIME");
  sub->add_flag("--no-wait", wanted.no_wait, "Now or not at all")->excludes(wait);
  add_note(sub, wanted);
}

void add_run(CLI::App& app, Verb& chosen, RunVerb& verb) {
  auto* run = app.add_subcommand("run", "Run a command on GPUs that are its own meanwhile");
  add_socket(run, verb);
  add_filters(run, verb.wanted);
  run->add_option("--power-limit", verb.power_limit, "So many watts on each, as long as it runs")
      ->type_name("WATTS");
  run->add_option("--summary", verb.summary, "Write what it used as JSON to FILE")
      ->type_name("FILE");
  run->add_flag("--quiet", verb.quiet, "Say nothing but what went wrong");
  run->add_option("command", verb.command,
                  "What to run, after --; {uuids} and {indices} stand for its GPUs")
      ->required();
  run->callback([&chosen, &verb] { chosen = verb; });
}

class LeaseActions {
 public:
  LeaseActions(CLI::App* lease, Verb& chosen, LeaseVerb& verb)
      : lease_(lease), chosen_(chosen), verb_(verb) {}

  CLI::App* add(Action what, const char* name, const char* summary) {
    auto* sub = lease_->add_subcommand(name, summary);
    add_socket(sub, verb_);
    sub->add_flag("--json", verb_.json, "Print JSON");
    sub->callback([this_verb = &verb_, chosen = &chosen_, what] {
      this_verb->action = what;
      *chosen = *this_verb;
    });
    return sub;
  }

  CLI::App* add_with_id(Action what, const char* name, const char* summary) {
    auto* sub = add(what, name, summary);
    sub->add_option("id", verb_.id, "Of the lease; else GPUYARD_LEASE")->type_name("ID");
    return sub;
  }

 private:
  CLI::App* lease_;
  Verb& chosen_;
  LeaseVerb& verb_;
};

CLI::Option* add_ttl(CLI::App* sub, LeaseVerb& verb) {
  return sub->add_option("--ttl", verb.ttl, "Ends after 30m, 8h, 2d, unless it is renewed")
      ->type_name("TIME")
      ->required();
}

void add_lease(CLI::App& app, Verb& chosen, LeaseVerb& verb) {
  auto* lease = app.add_subcommand("lease", "Take GPUs for a time, without a command");
  lease->require_subcommand(1);
  LeaseActions actions(lease, chosen, verb);
  auto* take = actions.add(Action::take, "take", "Take GPUs until a time is over");
  add_filters(take, verb.wanted);
  add_ttl(take, verb);
  take->add_flag("--export", verb.exported, "Print what a shell's eval sets")
      ->excludes(take->get_option("--json"));
  take->add_flag("--quiet", verb.quiet, "Say nothing but what went wrong");
  add_ttl(actions.add_with_id(Action::renew, "renew", "Let one last longer"), verb);
  auto* release =
      actions.add_with_id(Action::release, "release", "Give one up, or a place in the queue");
  auto* force =
      release->add_flag("--force", verb.force, "Also somebody else's; for administrators");
  auto* reason = release->add_option("--reason", verb.reason, "Why, for its holder and the log")
                     ->type_name("TEXT")
                     ->needs(force);
  force->needs(reason);
  release->add_option("--signal", verb.signal, "Sent to what still runs: TERM, KILL, INT, HUP")
      ->type_name("NAME")
      ->check(CLI::IsMember({"TERM", "KILL", "INT", "HUP"}));
  auto* adopt = actions.add(Action::adopt, "adopt", "Make a lease of the GPUs that a process uses");
  adopt->add_option("--pid", verb.pid, "The process")->check(CLI::PositiveNumber)->required();
  add_note(adopt, verb.wanted);
  actions.add_with_id(Action::show, "show", "Show one");
}

void add_cordon(CLI::App& app, Verb& chosen, CordonVerb& verb, const char* name,
                const char* summary) {
  auto* sub = app.add_subcommand(name, summary);
  add_socket(sub, verb);
  sub->add_option("gpus", verb.gpus, "Indexes, UUIDs or PCI addresses with commas, or all")
      ->type_name("GPU,...")
      ->required();
  sub->add_flag("--json", verb.json, "Print JSON");
  sub->callback([&chosen, &verb] { chosen = verb; });
  if (verb.lift) return;
  sub->add_option("--reason", verb.reason, "Why, for who waits")->type_name("TEXT")->required();
}

void add_usage(CLI::App& app, Verb& chosen, UsageVerb& verb) {
  auto* usage = add_showing(app, chosen, verb, "usage", "Show who used how much of the GPUs");
  usage->add_option("--since", verb.since, "In the last 24h, 7d, 30d (7d)")->type_name("TIME");
  usage->add_option("--by", verb.by, "A row for each user, day, gpu or lease (user)")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"user", "day", "gpu", "lease"}));
  usage->add_flag("--csv", verb.csv, "Print CSV")->excludes(usage->get_option("--json"));
}

}  // namespace

void add_leasing(CLI::App& app, Verb& chosen, LeaseVerbs& verbs) {
  add_run(app, chosen, verbs.run);
  add_showing(app, chosen, verbs.leases, "leases", "Show who has which GPUs");
  add_showing(app, chosen, verbs.queue, "queue", "Show who waits for GPUs, and why");
  add_lease(app, chosen, verbs.lease);
  verbs.uncordon.lift = true;
  add_cordon(app, chosen, verbs.cordon, "cordon", "Hand GPUs out to nobody from now on");
  add_cordon(app, chosen, verbs.uncordon, "uncordon", "Hand GPUs out again");
  add_usage(app, chosen, verbs.usage);
}

}  // namespace gpuyard::cli
