// gpuyard run: runs a command on GPUs that nobody else gets meanwhile.
#include <fmt/format.h>

#include "base/try.h"
#include "cli/control/control_request.h"
#include "cli/lease/claim_waiter.h"
#include "cli/lease/lease_text.h"
#include "cli/lease/leased_run.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/slurm/job_step.h"
#include "cli/slurm/through_slurm.h"

namespace gpuyard::cli {
namespace {

// Leaves out the arguments: their words are private to the user.
std::string note_of_command(const std::string& command) {
  return note_of(std::string_view(command).substr(command.rfind('/') + 1));
}

protocol::LeaseRequest run_request_of(const RunVerb& verb) {
  protocol::LeaseRequest request = new_claim(verb.wanted, "run");
  request.stream = true;
  if (!request.note) request.note = note_of_command(verb.command[0]);
  return request;
}

}  // namespace

Options add_run(Options program, RunVerb& verb) {
  const Options run = program.verb("run", "Lease GPUs and run a command on them");
  run.explain(
         "Waits in the queue until enough GPUs are free, starts COMMAND with CUDA_VISIBLE_DEVICES "
         "set to them, and releases them when COMMAND and its processes have exited. The exit "
         "code is that of COMMAND.")
      .usage({"gpuyard run [OPTIONS] -- COMMAND [ARG...]"})
      .example("gpuyard run -- python train.py")
      .example(
          "gpuyard run -n 2 --min-free 40G --max-time 8h -- torchrun --nproc-per-node 2 train.py")
      .example("gpuyard run --no-wait -- ./bench.sh || echo \"no GPU is free\"")
      .example("gpuyard run --through slurm --model H100 --max-time 2h -- ./train.sh")
      .exit_codes(
          "Exit codes besides that of COMMAND: 2 invalid command line, 5 no daemon, 7 no GPUs in "
          "time, 126 or 127 COMMAND cannot be run");
  add_socket(run, verb.socket);
  run.command(verb.command, "Command to run; {uuids} and {indices} are replaced with its GPUs")
      .required();
  add_lease_filters(run, verb.wanted);
  const Options own = run.heading("Run");
  own.option("--power-limit", verb.power_limit,
             "Power limit for each GPU, for the duration of the lease")
      .metavar("WATTS")
      .reads([](const std::string& text) -> Result<void> {
        GPUYARD_TRY(parse_watts(text));
        return {};
      });
  add_note(own, verb.wanted).default_is("the program's name");
  own.option("--report", verb.report, "Write a JSON summary of the run to FILE")
      .metavar("FILE")
      .formerly("--summary");
  add_quiet(own, verb.quiet);
  add_through(own, verb.through,
              "Who allocates the GPUs: daemon, or slurm, which runs the command with srun");
  own.option("--job-directory", verb.job_directory, "Working folder on the node of a Slurm job")
      .metavar("DIR")
      .hidden();
  own.flag("--in-job", verb.in_job, "The Slurm job is older than this command").hidden();
  return run;
}

int run(const RunVerb& verb) {
  if (!verb.job_directory.empty()) return slurm::run_job_step(verb);
  if (slurm::is_through_slurm(verb.through)) return slurm::run_through_slurm(verb);
  const auto report = open_run_report(verb.report);
  if (!report) return print_error(report.error());
  const auto daemon = require_daemon(verb.socket, "leases need");
  if (!daemon) return print_source_error(daemon.error());
  const JobSignals signals;  // before any thread
  std::string command;
  for (const std::string& word : verb.command) command += quote_shell_word(word) + " ";
  ClaimWaiter waiter(
      *daemon, run_request_of(verb),
      fmt::format("gpuyard run -n {} -- {}", waiting_words(verb.wanted), trim(command)), signals,
      verb.quiet);
  auto claimed = waiter.wait();
  if (const int* code = std::get_if<int>(&claimed)) return *code;
  return LeasedRun(verb, *daemon, signals, waiter.follower(),
                   std::get<protocol::Lease>(std::move(claimed)), *report)
      .run();
}

}  // namespace gpuyard::cli
