#include "cli/slurm/job_step.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "base/paths.h"
#include "base/saturated.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/lease/foreground_job.h"
#include "cli/lease/job_signals.h"
#include "cli/lease/lease_text.h"
#include "cli/lease/leased_run.h"
#include "cli/read/json_output.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/slurm/srun_line.h"
#include "cli/source.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli::slurm {
namespace {

// The longest time until the daemon has the lease of a job whose prolog has ended: the prolog
// does not wait for a slow disk.
constexpr Duration kLeaseTimeout = std::chrono::seconds(1);
constexpr Duration kLeasePollInterval = std::chrono::milliseconds(50);

std::string job_variable(const char* name) {
  return std::string(environment_variable(name));
}

// The number of GPUs of this step. Slurm sets it for steps and for batch scripts that have one.
std::size_t count_gpus() {
  return parse_number<std::size_t>(job_variable("SLURM_GPUS_ON_NODE")).value_or(0);
}

// The daemon of this node, and the lease of our job.
struct JobLease {
  http::Endpoint daemon;
  protocol::LeaseAnswer answer;
};

Result<JobLease> find_job_lease(const RunVerb& verb, const std::string& job) {
  const auto daemon = GPUYARD_TRY(require_daemon(verb.socket, "leases need"));
  const TimePoint until = BootClock::now() + kLeaseTimeout;
  while (true) {
    auto reply = client::call(daemon, protocol::kSlurmJob, {job});
    // Slurm uses the numbers of jobs again.
    const bool ours =
        reply && reply->lease.state == lease::LeaseState::held && reply->lease.uid == ::getuid();
    if (ours) return JobLease{daemon, *std::move(reply)};
    const bool may_come = reply || reply.error().code == Errc::not_found;
    if (!may_come) return reply.error();
    if (BootClock::now() >= until) {
      return Error{Errc::not_found, "the daemon has no lease of it", "",
                   "gpuyard slurm install  # shows whether the hooks are in slurm.conf"};
    }
    std::this_thread::sleep_for(kLeasePollInterval);
  }
}

// The first option that cannot do without the job's lease; "": there is none.
std::string option_for_lease(const RunVerb& verb) {
  if (!verb.power_limit.empty()) return "--power-limit";
  if (!verb.report.empty()) return "--report";
  if (verb.in_job && verb.wanted.request.model) return "--model";
  for (const std::string_view name : {"{uuids}", "{indices}"}) {
    const auto has = [&](const std::string& word) { return word.find(name) != word.npos; };
    if (std::ranges::any_of(verb.command, has)) return std::string(name);
  }
  return "";
}

class JobStep {
 public:
  JobStep(const RunVerb& verb, std::string job)
      : verb_(verb), job_(std::move(job)), gpus_(count_gpus()) {}

  int run();

 private:
  Result<void> enter_directory() const;
  Result<void> check_gpus() const;
  // Finds the lease. An error means that the command must not start without it.
  Result<void> take_lease();
  void begin_measurement();
  ForegroundJob::Variables variables() const;
  JobEnd wait(ForegroundJob&) const;
  void print_start() const;
  // Reads what the command has used into the lease.
  void read_usage();
  int finish(const JobEnd&);
  void write_report(int exit_code) const;

  const RunVerb& verb_;
  std::string job_;
  std::size_t gpus_;
  JobSignals signals_;  // before any thread
  UniqueFd report_;
  std::optional<JobLease> lease_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<SourceMeasurement> measurement_;  // ends before its source
  double seconds_ = 0;
};

int JobStep::run() {
  if (const auto entered = enter_directory(); !entered) {
    print_error(entered.error());
    return kExitCannotRun;
  }
  if (const auto enough = check_gpus(); !enough) return print_error(enough.error());
  auto report = open_run_report(verb_.report);
  if (!report) return print_error(report.error());
  report_ = *std::move(report);
  if (const auto taken = take_lease(); !taken) return print_error(taken.error());
  if (lease_) {
    auto limited = limit_power(lease_->daemon, lease_->answer.lease, verb_.power_limit);
    if (!limited) {
      print_error(
          std::move(limited).error().in("the command was not started: setting its power limit"));
      return exit_code_of(Errc::denied);
    }
  }
  const std::vector<protocol::LeasedGpu> gpus =
      lease_ ? lease_->answer.lease.gpus : std::vector<protocol::LeasedGpu>();
  auto job = ForegroundJob::start_held(substitute_gpus(verb_.command, gpus), variables(), signals_);
  if (!job) return print_error(job.error());
  begin_measurement();
  print_start();
  const TimePoint began_at = BootClock::now();
  if (const auto failed = job->resume()) return *failed;
  const JobEnd end = wait(*job);
  seconds_ = to_seconds(BootClock::now() - began_at);
  const int code = finish(end);
  if (end.interrupted) exit_by_sigint(job->has_own_group());
  return code;
}

// Slurm starts a command in /tmp if the node does not have the working folder.
Result<void> JobStep::enter_directory() const {
  if (::chdir(verb_.job_directory.c_str()) == 0) return {};
  return Error{Errc::not_found,
               fmt::format("the working folder {} is not on node {}; the command was not started",
                           printable(verb_.job_directory), job_variable("SLURMD_NODENAME")),
               "", "cd ~  # or to another folder that all nodes share"};
}

Result<void> JobStep::check_gpus() const {
  const auto wanted = static_cast<std::size_t>(*verb_.wanted.request.gpus);
  if (wanted <= gpus_) return {};
  return Error{Errc::invalid,
               fmt::format("job {} has {} on this node, and the command needs {}", job_,
                           number_of_gpus(static_cast<std::int64_t>(gpus_)), wanted),
               "a job of Slurm cannot get more GPUs once it runs",
               fmt::format("sbatch --gres=gpu:{} ...", wanted)};
}

Result<void> JobStep::take_lease() {
  auto found = find_job_lease(verb_, job_);
  if (found && found->answer.lease.gpus.size() != gpus_) {
    found = Error{Errc::conflict, fmt::format("this step has {} of the {} GPUs of the job", gpus_,
                                              found->answer.lease.gpus.size())};
  }
  if (!found) {
    const std::string option = option_for_lease(verb_);
    if (!option.empty()) {
      Error error = std::move(found).error();
      return std::move(error).in(fmt::format(
          "the command was not started: {} needs the lease of Slurm job {}", option, job_));
    }
    print_note(fmt::format("Slurm job {} has no lease: {}; the command runs without GPUYARD_LEASE",
                           job_, found.error().text()));
    return {};
  }
  lease_.emplace(*std::move(found));
  const auto& wanted = verb_.wanted.request.model;
  if (!verb_.in_job || !wanted) return {};
  const std::string model = to_lower(*wanted);
  for (const protocol::LeasedGpu& gpu : lease_->answer.lease.gpus) {
    if (to_lower(gpu.name).find(model) != std::string::npos) continue;
    return Error{Errc::invalid, fmt::format("--model: job {} has {}, which does not match \"{}\"",
                                            job_, gpus_text({gpu}), *wanted)};
  }
  return {};
}

// The lease counts the energy up to the last reading. A measurement reads the GPUs when it begins
// and when it ends, and is of this command alone. Without it the lease's own count is used.
void JobStep::begin_measurement() {
  constexpr std::int64_t kMaxMeasureSeconds = std::int64_t{30} * 24 * 3600;
  if (!lease_ || (verb_.quiet && verb_.report.empty())) return;
  SourceOptions options;
  options.socket = lease_->daemon.text();
  auto source = open_source(options);
  if (!source) return;
  protocol::EnergyWindowRequest request;
  request.gpus.emplace();
  for (const protocol::LeasedGpu& gpu : lease_->answer.lease.gpus) {
    request.gpus->push_back({gpu.uuid});
  }
  request.name = fmt::format("Slurm job {}", job_);
  request.most_seconds = kMaxMeasureSeconds;
  auto measurement = (*source)->begin_measurement(request);
  if (!measurement) return;
  source_ = *std::move(source);
  measurement_ = *std::move(measurement);
}

// CUDA_VISIBLE_DEVICES is Slurm's. Without a lease the variables of another one, from where the job
// was submitted, must not stay.
ForegroundJob::Variables JobStep::variables() const {
  if (!lease_) return {{"GPUYARD_LEASE", ""}, {"GPUYARD_FENCE", ""}};
  auto variables = variables_of(lease_->answer.lease, lease_->daemon);
  std::erase_if(variables,
                [](const auto& variable) { return variable.first.starts_with("CUDA_"); });
  return variables;
}

void JobStep::print_start() const {
  const auto& max_time_s = verb_.wanted.request.max_time_s;
  if (verb_.quiet || !max_time_s) return;
  if (verb_.in_job) {
    return print_note(
        fmt::format("--max-time has no effect in job {}, which has a time limit of its own", job_));
  }
  constexpr double kMinute = 60;
  print_note(fmt::format("Slurm job {} on {}; Slurm ends it after {} (--max-time)", job_,
                         job_variable("SLURMD_NODENAME"),
                         length_text(static_cast<double>(limit_minutes(*max_time_s)) * kMinute)));
}

JobEnd JobStep::wait(ForegroundJob& job) const {
  if (const auto end = job.reap()) return *end;
  for (;;) {
    while (const auto signal = signals_.take()) {
      if (signal->number != SIGCHLD) {
        job.forward(*signal);
      } else if (const auto end = job.reap()) {
        return *end;
      }
    }
    pollfd polled{signals_.descriptor(), POLLIN, 0};
    ::poll(&polled, 1, -1);
  }
}

void JobStep::read_usage() {
  constexpr double kMillijoules = 1000;
  protocol::Lease& lease = lease_->answer.lease;
  const auto window = measurement_ != nullptr
                          ? measurement_->finish()
                          : Result<protocol::EnergyWindow>(Error{Errc::unavailable, ""});
  // After the measurement: its last reading counts for the lease, too.
  const auto reply = client::call(lease_->daemon, protocol::kSlurmJob, {job_});
  lease.use = reply ? reply->lease.use : std::nullopt;
  if (verb_.in_job) lease.use.emplace();  // the job's own use is also that of its other commands
  if (!window || !lease.use) {
    if (verb_.in_job) lease.use.reset();
    return;
  }
  lease.use->held = duration_from_seconds(window->seconds);
  lease.use->energy_mj.reset();
  if (window->joules) {
    lease.use->energy_mj = static_cast<std::int64_t>(std::round(*window->joules * kMillijoules));
  }
  lease.use->estimated = std::ranges::any_of(window->gpus, &protocol::WindowGpu::estimated);
  lease.use->unknown = {};
  for (const protocol::WindowGpu& gpu : window->gpus) {
    lease.use->unknown += duration_from_seconds(gpu.unknown_seconds);
  }
}

int JobStep::finish(const JobEnd& end) {
  const bool needed = !verb_.quiet || report_;
  if (lease_ && needed) read_usage();
  if (lease_ && !verb_.quiet) print_note(summary_text(lease_->answer.lease, seconds_));
  if (lease_ && report_) write_report(end.exit_code);
  return end.exit_code;
}

void JobStep::write_report(int exit_code) const {
  // Slurm ends the processes that the command has left behind.
  const RunAnswer answer{{.simulated = lease_->answer.simulated},
                         verb_.command,
                         exit_code,
                         seconds_,
                         lease_->answer.lease,
                         {},
                         {}};
  const auto written = write_all(report_, "the summary", json_line(answer));
  if (!written) print_error(Error(written.error()).in("--report"));
}

}  // namespace

int run_job_step(const RunVerb& verb) {
  const std::string job = job_variable("SLURM_JOB_ID");
  if (job.empty()) {
    return print_error({Errc::invalid, "SLURM_JOB_ID is not set: this option is for srun", "",
                        "gpuyard run --through slurm --help"});
  }
  return JobStep(verb, job).run();
}

}  // namespace gpuyard::cli::slurm
