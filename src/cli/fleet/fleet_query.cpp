#include "cli/fleet/fleet_query.h"

#include "base/try.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "faces/client/local_daemon.h"
#include "faces/fleet/ssh_masters.h"

namespace gpuyard::cli {

void add_machine_options(Options sub, MachineOptions& machines) {
  const Options options = sub.heading("Machines");
  options
      .option("--hosts", machines.hosts,
              "Machines: names, URLs, FILE.toml, FILE.json, http_sd:URL or dns:SERVICE")
      .metavar("NAME,...")
      .environment("GPUYARD_HOSTS")
      .default_is("all in hosts.toml")
      .details(
          "Machines, with commas between them or with --hosts for each: names in hosts.toml "
          "or of ssh, URLs as for -H, files like hosts.toml (FILE.toml) or of Prometheus "
          "file_sd (FILE.json), http_sd:URL, or a service in DNS (dns:_gpuyard._tcp.DOMAIN).");
  options.option("--timeout", machines.timeout, "Time limit for reaching a machine")
      .metavar("DURATION")
      .default_is("10s");
  options.flag("--no-master", machines.no_master, "Do not keep ssh connections open for reuse");
}

Result<FleetTarget> fleet_target_of(const MachineOptions& machines) {
  const auto environment = Environment::current();
  const auto timeout = parse_interval(machines.timeout);
  if (!timeout) return Error(timeout.error()).in("--timeout");
  FleetTarget target;
  target.options.credentials = client::credentials_of(environment);
  target.options.credentials.ssh = {.with_parent = true, .login_timeout = *timeout};
  target.options.reply_timeout = std::min(target.options.reply_timeout, *timeout);
  std::vector<std::string> words = machines.hosts;
  const std::string usual(environment_variable("GPUYARD_HOSTS"));
  if (words.empty() && !usual.empty()) words = {usual};
  auto hosts = GPUYARD_TRY(fleet::resolve_hosts(words, hosts_file(environment)));
  target.hosts = std::move(hosts);
  if (machines.no_master) return target;
  auto masters = fleet::make_masters_directory(environment);
  if (masters) {
    target.options.credentials.ssh.masters_directory = *std::move(masters);
  } else {
    print_note("note: ssh connections are not kept for reuse: " + masters.error().text());
  }
  return target;
}

std::string waiting_text(const std::vector<std::string>& pending, std::size_t done,
                         std::size_t all) {
  const std::size_t more = all - done - std::min(pending.size(), all - done);
  return fmt::format(
      "{} of {} machines have answered; waiting for {}{}. Press Ctrl-C for partial results", done,
      all, fmt::join(pending, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

int exit_by_signal(const JobSignal& signal) {
  if (signal.number == SIGINT) exit_by_sigint(false);
  std::_Exit(kExitSignalBase + signal.number);
}

}  // namespace gpuyard::cli
