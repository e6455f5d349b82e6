// gpuyard leases, queue, usage, cordon and uncordon.
#include "base/json_writer.h"
#include "cli/client/daemon_client.h"
#include "cli/lease/lease_request.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/queue_table.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "protocol/routes.h"

namespace gpuyard::cli {
namespace {

// Asks, and prints the answer as JSON or as `table` has it.
template <class AnyVerb, class Ask, class Table>
int show(const AnyVerb& verb, Ask&& ask, Table&& table) {
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_leasing(daemon.error());
  const auto answer = ask(*daemon);
  if (!answer) return complain_about_leasing(answer.error());
  print(verb.json ? json::to_json(*answer) + "\n" : table(*answer));
  return 0;
}

Result<protocol::UsageQuery> query_of(const UsageVerb& verb) {
  const auto since = seconds_of(verb.since, "--since");
  if (!since) return since.error();
  protocol::UsageQuery query;
  query.since_s = *since;
  query.by = enum_from_name<gpuyard::lease::UseBy>(verb.by);
  if (!query.by) {
    return Error{Errc::invalid, "--by is user, day, gpu or lease, not \"" + verb.by + "\""};
  }
  if (verb.csv) query.format = protocol::TextFormat::csv;
  return query;
}

// As the daemon writes it.
int print_csv(const http::Endpoint& daemon, const protocol::UsageQuery& query) {
  const auto& route = protocol::kUsage;
  const auto text =
      client::exchange(daemon, route, client::target_of(route.pattern, named_values(query)), "",
                       client::kAnswerDeadline);
  if (!text) return complain_about_leasing(text.error());
  print(*text);
  return 0;
}

Options add_cordoning(Options program, CordonVerb& verb, const char* name, const char* summary) {
  const Options sub = program.verb(name, summary);
  add_socket(sub, verb.socket);
  add_gpus(sub, verb.gpus, "Indexes, UUIDs or PCI addresses, or all").required();
  sub.flag("--json", verb.json, "Print JSON");
  return sub;
}

}  // namespace

Options add_leases(Options program, LeasesVerb& verb) {
  const Options leases = program.verb("leases", "Show who has which GPUs");
  add_showing(leases, verb.socket, verb.json, verb.color);
  return leases;
}

Options add_queue(Options program, QueueVerb& verb) {
  const Options queue = program.verb("queue", "Show who waits for GPUs, and why");
  add_showing(queue, verb.socket, verb.json, verb.color);
  return queue;
}

Options add_cordon(Options program, CordonVerb& verb) {
  const Options cordon =
      add_cordoning(program, verb, "cordon", "Hand GPUs out to nobody from now on");
  cordon.option("--reason", verb.reason, "Why, for who waits").type_name("TEXT").required();
  return cordon;
}

Options add_uncordon(Options program, CordonVerb& verb) {
  verb.lift = true;
  return add_cordoning(program, verb, "uncordon", "Hand GPUs out again");
}

Options add_usage(Options program, UsageVerb& verb) {
  const Options usage = program.verb("usage", "Show who used how much of the GPUs");
  add_showing(usage, verb.socket, verb.json, verb.color);
  usage.option("--since", verb.since, "In the last 24h, 7d, 30d (7d)").type_name("TIME");
  usage.option("--by", verb.by, "A row for each user, day, gpu or lease (user)")
      .type_name("WHAT")
      .one_of({"user", "day", "gpu", "lease"});
  usage.flag("--csv", verb.csv, "Print CSV").excludes(usage.find("--json"));
  return usage;
}

int run(const LeasesVerb& verb) {
  return show(
      verb, [](const auto& daemon) { return client::call(daemon, protocol::kLeases); },
      [&](const protocol::Leases& leases) {
        return lease_table(leases, wall_now(), Screen::of_stdout(verb.color));
      });
}

int run(const QueueVerb& verb) {
  return show(
      verb, [](const auto& daemon) { return client::call(daemon, protocol::kQueue); },
      [&](const protocol::Queue& queue) {
        return queue_text(queue, wall_now(), Screen::of_stdout(verb.color));
      });
}

int run(const UsageVerb& verb) {
  const auto query = query_of(verb);
  if (!query) return complain(query.error());
  if (verb.csv) {
    const auto daemon = lease_daemon(verb.socket);
    return daemon ? print_csv(*daemon, *query) : complain_about_leasing(daemon.error());
  }
  return show(
      verb, [&](const auto& daemon) { return client::call(daemon, protocol::kUsage, *query); },
      [&](const protocol::Usage& usage) {
        return usage_table(usage, Screen::of_stdout(verb.color));
      });
}

int run(const CordonVerb& verb) {
  const auto ask = [&](const http::Endpoint& daemon) {
    if (verb.lift) return client::call(daemon, protocol::kUncordon, {verb.gpus});
    return client::call(daemon, protocol::kCordon, {verb.gpus}, {verb.reason});
  };
  return show(verb, ask, [&](const protocol::Cordoned& cordoned) {
    const std::string text = withheld_text(cordoned.withheld, wall_now());
    return text.empty() ? std::string("They are handed out again.\n") : text;
  });
}

}  // namespace gpuyard::cli
