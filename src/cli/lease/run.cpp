// gpuyard run: runs a command on GPUs that nobody else gets meanwhile.
#include <fcntl.h>

#include "base/files.h"
#include "cli/control/control_request.h"
#include "cli/lease/claiming.h"
#include "cli/lease/lease_text.h"
#include "cli/lease/leased_run.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"

namespace gpuyard::cli {
namespace {

// Leaves out the arguments: their words are private to the user.
std::string note_of_command(const std::string& command) {
  return note_of(std::string_view(command).substr(command.rfind('/') + 1));
}

Result<protocol::LeaseWish> wish_of(const RunVerb& verb) {
  if (!verb.power_limit.empty()) {
    if (const auto watts = parse_watts(verb.power_limit); !watts) return watts.error();
  }
  auto wish = wish_of(verb.wanted);
  if (!wish) return wish;
  wish->binding = "run";
  wish->stream = true;
  if (!wish->note) wish->note = note_of_command(verb.command[0]);
  return wish;
}

// Opened before the wait: a missing directory is reported now, not after hours.
Result<UniqueFd> open_summary(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return system_error("--summary: opening " + path);
  return file;
}

}  // namespace

Options add_run(Options program, RunVerb& verb) {
  const Options run = program.verb("run", "Lease GPUs and run a command on them");
  add_socket(run, verb.socket);
  add_filters(run, verb.wanted);
  run.option("--power-limit", verb.power_limit,
             "Power limit for each GPU, for the duration of the lease")
      .type_name("WATTS");
  run.option("--report,--summary", verb.summary, "Write a JSON summary of the run to FILE")
      .type_name("FILE");
  run.flag("--quiet", verb.quiet, "Print only warnings and errors");
  run.command(verb.command,
              "Command to run, after --; {uuids} and {indices} are replaced with its GPUs")
      .required();
  return run;
}

int run(const RunVerb& verb) {
  auto wish = wish_of(verb);
  if (!wish) return complain(wish.error());
  const auto summary = open_summary(verb.summary);
  if (!summary) return complain(summary.error());
  const auto daemon = lease_daemon(verb.socket);
  if (!daemon) return complain_about_daemon(daemon.error());
  const JobSignals signals;  // before any thread
  Claiming claiming(*daemon, *std::move(wish), signals, verb.quiet);
  auto claimed = claiming.wait();
  if (const int* code = std::get_if<int>(&claimed)) return *code;
  return LeasedRun(verb, *daemon, signals, claiming.feed(),
                   std::get<protocol::Lease>(std::move(claimed)), *summary)
      .run();
}

}  // namespace gpuyard::cli
