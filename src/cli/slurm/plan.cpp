// gpuyard slurm plan: queries the machines, and writes Slurm's files for them into a directory. It
// changes nothing else, here or on another machine. With --check it compares the files with this
// machine, and writes nothing.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/fleet/fleet_query.h"
#include "cli/read/source_access.h"
#include "cli/screen/fitted_table.h"
#include "cli/screen/output.h"
#include "cli/slurm/cluster_plan.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"
#include "cli/slurm/plan_check.h"
#include "cli/slurm/plan_directory.h"
#include "faces/protocol/routes.h"
#include "io/http/resolver.h"

namespace gpuyard::cli::slurm {
namespace {

using fleet::HostReply;
using protocol::HostInventory;

Result<HostInventory> fetch_inventory(const http::Endpoint& daemon,
                                      const fleet::FanOutOptions& options) {
  auto inventory =
      client::call(daemon, protocol::kHost, {}, {}, options.reply_timeout, fleet::kMaxReplyBytes);
  if (!inventory && inventory.error().code == Errc::not_found) {
    return Error{Errc::unsupported, "its gpuyard is too old to be planned",
                 fmt::format("it does not have {}", protocol::kHost.pattern),
                 "gpuyard version  # install this version on that machine"};
  }
  return inventory;
}

std::vector<Error> reply_problems(const std::vector<HostReply<HostInventory>>& replies) {
  std::vector<Error> problems;
  for (const auto& reply : replies) {
    if (!reply.problem) continue;
    Error problem = Error(*reply.problem).in(printable(reply.host.name));
    if (problem.hint.empty()) {
      problem.hint =
          fmt::format("gpuyard fleet doctor --hosts {}", quote_shell_word(reply.host.name));
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

// Slurm's programs find each other by these names.
std::vector<Error> name_problems(const std::vector<PlannedHost>& hosts) {
  constexpr Duration kLookupTimeout = std::chrono::seconds(5);
  std::vector<Error> problems;
  for (const PlannedHost& host : hosts) {
    const std::string name = host.inventory.machine.hostname.value_or("");
    const auto found = http::resolve(name, kSlurmdPort, BootClock::now() + kLookupTimeout);
    if (found) continue;
    problems.push_back({found.error().code, fmt::format("{} has no address", name),
                        found.error().text(),
                        fmt::format("getent hosts {}  # add it to DNS, or to /etc/hosts on every "
                                    "machine",
                                    name)});
  }
  return problems;
}

Result<std::string> new_munge_key() {
  constexpr std::size_t kKeyBytes = 1024;
  std::string key(kKeyBytes, '\0');
  for (std::size_t done = 0; done < key.size();) {
    const ssize_t got = ::getrandom(key.data() + done, key.size() - done, 0);
    if (got < 0 && errno != EINTR) return system_error("reading random bytes");
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return key;
}

int print_problems(const std::vector<Error>& problems) {
  for (const Error& problem : problems) print_error(problem);
  print_note("no file was written");
  return exit_code_of(problems.front().code);
}

std::string_view word_of(PlacedFile::State state) {
  switch (state) {
    case PlacedFile::State::written:
      return "written";
    case PlacedFile::State::unchanged:
      return "unchanged";
    case PlacedFile::State::beside:
      return "written beside the existing file, which differs";
  }
  return "";
}

Printable result_text(const std::string& directory, const std::vector<PlacedFile>& files,
                      const ClusterPlan& plan) {
  Printable text = formatted("Files in {}:\n", directory);
  for (const PlacedFile& file : files) {
    text += formatted("  {:<14} {}\n", file.name, word_of(file.state));
    for (const std::string& line : file.difference) text += formatted("    {}\n", line);
  }
  if (!plan.notes.empty()) text += "Remarks:\n";
  for (const std::string& note : plan.notes) text += formatted("  {}\n", note);
  return text + formatted("To set up the machines, follow {}/README.md.\n", directory);
}

// Returns what a program of a package of its own name prints, its log included. `remedy`: the
// command to try if it fails.
Result<std::string> run_installed(const std::string& program, std::vector<std::string> words,
                                  const std::string& remedy) {
  const std::string name = program + " " + words.front();
  if (!find_program(program)) {
    return Error{Errc::not_found, fmt::format("{} is not installed on this machine", program), "",
                 fmt::format("sudo apt-get install {}", program)};
  }
  auto text = run_with_timeout(
      {.program = program, .arguments = std::move(words), .search_path = true}, kCommandTimeout);
  if (text) return text;
  return Error{text.error().code, name + " failed", text.error().text(), remedy};
}

Result<PlannedHost> fetch_own_inventory(const std::string& socket) {
  const auto daemon = GPUYARD_TRY(require_daemon(socket, "the inventory of this machine needs"));
  auto inventory = GPUYARD_TRY(fetch_inventory(daemon, {}));
  return PlannedHost{inventory.machine.hostname.value_or(""), std::move(inventory)};
}

// Without it, Slurm's programs do not accept each other. It is Slurm's default.
bool uses_munge(std::string_view slurm_conf) {
  while (!slurm_conf.empty()) {
    std::string_view value = trim(take_until('\n', slurm_conf));
    if (equals_ignoring_case(trim(take_until('=', value)), "AuthType")) {
      return equals_ignoring_case(trim(value), "auth/munge");
    }
  }
  return true;
}

Result<std::vector<Difference>> find_differences(const PlannedHost& host,
                                                 const std::string& directory) {
  constexpr std::size_t kMaxConfBytes = std::size_t{16} * 1024 * 1024;
  const std::string file = directory + "/slurm.conf";
  const auto conf = GPUYARD_TRY(read_file(file, kMaxConfBytes));
  const std::string name = host.inventory.machine.hostname.value_or("");
  if (uses_munge(conf)) {
    GPUYARD_TRY(run_installed("munge", {"-n"}, "sudo systemctl restart munge"));
  }
  const std::string again = "gpuyard slurm plan --check  # once the cause is removed";
  SlurmdReport slurmd;
  slurmd.hardware = GPUYARD_TRY(run_installed("slurmd", {"-C", "-N", name}, again));
  slurmd.gpus = GPUYARD_TRY(run_installed("slurmd", {"-G", "-N", name, "-f", file}, again));
  return differences_of(host, conf, slurmd);
}

int check_files(const SlurmVerb& verb) {
  const std::string directory = verb.into.empty() ? "/etc/slurm" : verb.into;
  const auto host = fetch_own_inventory(verb.socket);
  if (!host) return print_error(host.error());
  if (const auto problems = problems_of(*host); !problems.empty()) {
    for (const Error& problem : problems) print_error(problem);
    return exit_code_of(problems.front().code);
  }
  const auto found = find_differences(*host, directory);
  if (!found) return print_error(found.error());
  if (found->empty()) {
    print(formatted("The files in {} agree with this machine.\n", directory));
    return 0;
  }
  Printable text;
  for (const Difference& one : *found) {
    text += formatted("{}/{}: {}\n", directory, one.file, one.problem);
    text += one.line.empty() ? Printable("  should not be in the file\n")
                             : formatted("  should be: {}\n", one.line);
  }
  print(text);
  return 1;
}

}  // namespace

int plan(const SlurmVerb& verb) {
  if (verb.check) return check_files(verb);
  for (const auto& [option, value] :
       {std::pair{"--controller HOST", &verb.controller}, std::pair{"--into DIR", &verb.into}}) {
    if (!value->empty()) continue;
    return print_error({Errc::invalid, fmt::format("slurm plan needs {}", option), "",
                        "gpuyard slurm plan --help"});
  }
  const auto target = fleet_target_of(verb);
  if (!target) return print_error(target.error());
  const auto got = fan_out_query<HostInventory>(
      *target, [&](const auto& daemon) { return fetch_inventory(daemon, target->options); });
  if (got.end_signal) return exit_by_signal(*got.end_signal);
  ClusterSpec spec{{}, verb.controller, verb.accounting};
  for (const auto& reply : got.replies) {
    if (!reply.problem) spec.hosts.push_back({reply.host.name, reply.answer});
  }
  if (std::vector<Error> problems = reply_problems(got.replies); !problems.empty()) {
    for (const PlannedHost& host : spec.hosts) {
      std::ranges::move(problems_of(host), std::back_inserter(problems));
    }
    return print_problems(problems);
  }
  ClusterPlan plan = plan_cluster(spec);
  if (plan.problems.empty()) plan.problems = name_problems(spec.hosts);
  if (!plan.problems.empty()) return print_problems(plan.problems);
  auto key = new_munge_key();
  if (!key) return print_error(key.error());
  plan.files.push_back({"munge.key", *std::move(key), 0400, true});
  const auto placed = place_files(verb.into, plan.files);
  if (!placed) return print_error(placed.error());
  print(result_text(verb.into, *placed, plan));
  return 0;
}

}  // namespace gpuyard::cli::slurm
