// gpuyard usage: GPU-hours and energy, by user.
#include <string_view>

#include "base/try.h"
#include "cli/lease/daemon_report.h"
#include "cli/lease/lease_table.h"
#include "cli/lease/lease_text.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

Result<protocol::UsageQuery> query_of(const UsageVerb& verb) {
  const auto since = GPUYARD_TRY(seconds_since(verb.since));
  protocol::UsageQuery query;
  query.since_s = since;
  query.by = usage_grouping_of(verb.by);
  if (verb.csv) query.format = protocol::TextFormat::csv;
  return query;
}

constexpr std::string_view kUsageNeeds = "usage needs";

// Prints the daemon's CSV unchanged.
int print_csv(const http::Endpoint& daemon, const protocol::UsageQuery& query) {
  const auto& route = protocol::kUsage;
  const auto text = client::exchange(
      daemon, route, client::target_of(route.pattern, named_values(query)), "",
      client::kReplyTimeout, http::kDefaultMaxBodyBytes, client::RetryPolicy::while_loading);
  if (!text) return print_source_error(text.error());
  print(Printable::lines(*text));
  return 0;
}

}  // namespace

Options add_usage(Options program, UsageVerb& verb) {
  const Options usage = program.verb("usage", "Show GPU-hours and energy by user");
  add_output_options(usage, verb);
  usage.option("--since", verb.since, "Start: 7d (ago), 02:10 or 2026-01-31 12:00")
      .metavar("TIME")
      .default_is("7d");
  usage.option("--by", verb.by, "Group by user, day, gpu, lease, slurm-job, pod or namespace")
      .metavar("NAME")
      .default_is("user")
      .one_of({"user", "day", "gpu", "lease", "slurm-job", "pod", "namespace"});
  usage.flag("--csv", verb.csv, "Print CSV").excludes(usage.find("--json"));
  usage.example("gpuyard usage --since 30d")
      .example("gpuyard usage --by day")
      .example("gpuyard usage --since 2026-01-01 --csv > usage.csv");
  return usage;
}

int run(const UsageVerb& verb) {
  const auto query = query_of(verb);
  if (!query) return print_error(query.error());
  if (verb.csv) {
    const auto daemon = require_daemon(verb.socket, kUsageNeeds);
    return daemon ? print_csv(*daemon, *query) : print_source_error(daemon.error());
  }
  return print_report(
      verb, kUsageNeeds,
      [&](const auto& daemon) { return client::call_with_retry(daemon, protocol::kUsage, *query); },
      [&](const protocol::Usage& usage) {
        return usage_table(usage, Screen::of_stdout(verb.color));
      });
}

}  // namespace gpuyard::cli
