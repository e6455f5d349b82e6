// The hook of the controller: after a job it asks the daemons of the job's nodes what the job used,
// and tells the accounting. Slurm starts it while the nodes' epilogs still run.
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/text.h"
#include "base/try.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"
#include "cli/source.h"
#include "faces/client/local_daemon.h"
#include "faces/fleet/fan_out.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli::slurm {
namespace {

// The longest time until a job is over on its nodes, and all of it is counted.
constexpr Duration kUsageTimeout = std::chrono::seconds(30);

// The use of a job on one node, or on all.
struct JobUsage {
  std::size_t gpus = 0;
  std::optional<double> joules;  // of the GPUs of which they are known; empty: of none
  double busy = 0;               // percent x GPU-seconds
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  bool complete = true;  // all of it was counted

  void add(const JobUsage& more) {
    gpus += more.gpus;
    if (more.joules) joules = joules.value_or(0) + *more.joules;
    busy += more.busy;
    seconds += more.seconds;
    peak_bytes += more.peak_bytes;
    complete = complete && more.complete;
  }
};

// A lease that ended long before this hook began is of an earlier run, which was requeued.
bool is_of_earlier_run(const protocol::Lease& lease, WallTime began) {
  constexpr auto kMaxClockSkew = std::chrono::minutes(1);
  return lease.ended_wall && *lease.ended_wall + kMaxClockSkew < began;
}

JobUsage lease_usage_of(const protocol::Lease& lease, WallTime began) {
  constexpr double kMillijoules = 1000;
  JobUsage use;
  if (is_of_earlier_run(lease, began)) {
    use.complete = false;
    return use;
  }
  use.gpus = lease.gpus.size();
  // A daemon that is restarted in between misses some milliseconds.
  constexpr Duration kMaxUnknown = std::chrono::seconds(1);
  use.complete =
      lease.use && lease.use->settled && lease.use->energy_mj && lease.use->unknown < kMaxUnknown;
  if (!lease.use) return use;
  if (lease.use->energy_mj) {
    use.joules = static_cast<double>(*lease.use->energy_mj) / kMillijoules;
  }
  use.seconds = to_seconds(lease.use->held) * static_cast<double>(use.gpus);
  use.busy = lease.use->mean_utilization_percent.value_or(0) * use.seconds;
  use.peak_bytes = lease.use->peak_bytes.value_or(0);
  return use;
}

// A node without a lease of the job has had no GPU for it. A daemon that cannot be asked is given
// up soon: until then the job is shown as completing.
Result<JobUsage> fetch_usage(const http::Endpoint& daemon, const std::string& job, WallTime began) {
  constexpr auto kUsagePollInterval = std::chrono::milliseconds(500);
  const TimePoint begin = BootClock::now();
  while (true) {
    const auto reply = client::call(daemon, protocol::kSlurmJob, {job});
    const Duration waited = BootClock::now() - begin;
    const bool settled = reply && reply->lease.use && reply->lease.use->settled;
    if (settled || (reply && waited >= kUsageTimeout)) return lease_usage_of(reply->lease, began);
    if (!reply && reply.error().code == Errc::not_found) return JobUsage{};
    if (!reply && waited >= kCommandTimeout) return reply.error();
    std::this_thread::sleep_for(kUsagePollInterval);
  }
}

// YAML, and JSON but for the quotes: sacctmgr makes backticks of those.
std::string text_of(const JobUsage& use) {
  std::string text =
      fmt::format("{{gpuyard: {{joules: {}, gpus: {}",
                  use.joules ? fmt::format("{:.1f}", *use.joules) : "null", use.gpus);
  if (use.seconds > 0) {
    text += fmt::format(", mean_utilization_percent: {:.1f}", use.busy / use.seconds);
  }
  text += fmt::format(", peak_memory_bytes: {}", use.peak_bytes);
  return text + (use.complete ? "}}" : ", incomplete: true}}");
}

Result<std::vector<fleet::Host>> hosts_of_nodes(const SlurmVerb& verb,
                                                const std::vector<std::string>& nodes) {
  if (verb.url.empty()) return fleet::resolve_hosts(nodes, hosts_file(Environment::current()));
  std::vector<fleet::Host> hosts;
  for (const std::string& node : nodes) {
    hosts.push_back({node, replace_all(verb.url, "{}", node)});
  }
  return hosts;
}

// Array tasks by their own number: the array's means all of them.
std::string selector() {
  const std::string array(environment_variable("SLURM_ARRAY_JOB_ID"));
  const std::string task(environment_variable("SLURM_ARRAY_TASK_ID"));
  if (array.empty() || task.empty()) return std::string(environment_variable("SLURM_JOB_ID"));
  return array + "_" + task;
}

Result<JobUsage> fetch_total_usage(const SlurmVerb& verb, const std::string& job) {
  const WallTime began = wall_now();
  const auto nodes =
      GPUYARD_TRY(expand_hosts(std::string(environment_variable("SLURM_JOB_NODELIST"))));
  const auto hosts = GPUYARD_TRY(hosts_of_nodes(verb, nodes));
  fleet::FanOutOptions options;
  options.credentials = client::credentials_of(Environment::current());
  options.credentials.ssh = {.with_parent = true, .login_timeout = kCommandTimeout};
  fleet::FanOut<JobUsage> fan_out(
      hosts, options, [&](const auto& daemon) { return fetch_usage(daemon, job, began); });
  fan_out.pool().finish();
  JobUsage sum;
  for (const auto& reply : fan_out.replies()) {
    sum.add(reply.answer);
    if (!reply.problem) continue;
    sum.complete = false;
    print_note(fmt::format("job {}: {}: {}", job, reply.host.name, reply.problem->text()));
  }
  return sum;
}

// The accounting's record of a job: its number of GPUs, if they are counted, and the comment.
struct AccountingRecord {
  std::optional<std::size_t> gpus = {};
  std::string comment = {};
};

Result<AccountingRecord> read_accounting() {
  constexpr std::string_view kGpus = "gres/gpu=";
  const auto text = run_slurm_command(
      {"sacct", "-X", "-n", "-P", "-o", "AllocTRES,AdminComment", "-j", selector()});
  if (!text) return text.error();
  const std::size_t bar = text->find('|');
  if (bar == std::string::npos) return AccountingRecord{};
  AccountingRecord known{{}, std::string(trim(std::string_view(*text).substr(bar + 1)))};
  for (const std::string& word : split(text->substr(0, bar), ',')) {
    if (!word.starts_with(kGpus)) continue;
    known.gpus = parse_number<std::size_t>(std::string_view(word).substr(kGpus.size()));
  }
  return known;
}

// Writes the comment, unless the job has one of somebody else's. slurmdbd may learn of the job
// later than we do, as it does of the tasks of an array.
Result<void> write_comment(JobUsage use) {
  constexpr auto kRetryDelay = std::chrono::milliseconds(500);
  const TimePoint end = BootClock::now() + kUsageTimeout;
  while (true) {
    if (const auto known = read_accounting()) {
      if (!known->comment.empty() && !known->comment.starts_with("{gpuyard:")) {
        return Error{Errc::conflict, "it already has an AdminComment, which is kept"};
      }
      // A node without a report of the job in time knows nothing of it.
      use.complete = use.complete && use.gpus >= known->gpus.value_or(use.gpus);
    }
    const auto done =
        run_slurm_command({"sacctmgr", "-i", "modify", "job", "where", "jobid=" + selector(), "set",
                           "AdminComment=" + text_of(use)});
    if (done) return {};
    const bool job_unknown = done.error().message.find("Nothing modified") != std::string::npos;
    if (!job_unknown || BootClock::now() >= end) return done.error();
    std::this_thread::sleep_for(kRetryDelay);
  }
}

}  // namespace

// Whatever goes wrong, a comment is not worth a failed hook.
int comment(const SlurmVerb& verb) {
  const std::string job(environment_variable("SLURM_JOB_ID"));
  if (job.empty()) {
    return print_error(
        {Errc::invalid,
         "SLURM_JOB_ID is not set; Slurm runs this command as its EpilogSlurmctld, see "
         "docs/slurm.md"});
  }
  const auto use = fetch_total_usage(verb, job);
  if (!use) {
    print_note(fmt::format("job {}: {}", job, use.error().text()));
    return 0;
  }
  if (use->gpus == 0) return 0;
  if (const auto written = write_comment(*use); !written) {
    print_note(fmt::format("job {}: {}; it used {}", job, written.error().text(), text_of(*use)));
  }
  return 0;
}

}  // namespace gpuyard::cli::slurm
