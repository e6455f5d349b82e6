// gpuyard leases, queue, usage, cordon and uncordon.
#include "base/json_writer.h"
#include "cli/lease_request.h"
#include "cli/lease_table.h"
#include "cli/queue_table.h"
#include "cli/terminal.h"
#include "client/daemon_client.h"
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
  query.by = verb.by;
  if (verb.csv) query.format = "csv";
  return query;
}

// As the daemon writes it.
int print_csv(const http::Endpoint& daemon, const protocol::UsageQuery& query) {
  const auto& route = protocol::kUsage;
  const auto text =
      client::exchange(daemon, route, client::target_of(route.pattern, client::named_values(query)),
                       "", client::kAnswerDeadline);
  if (!text) return complain_about_leasing(text.error());
  print(*text);
  return 0;
}

}  // namespace

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
