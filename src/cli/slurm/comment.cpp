// The hook of the controller: after a job it asks the daemons of the job's nodes what the job used,
// and tells the accounting. Slurm starts it while the nodes' epilogs still run.
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "cli/screen/terminal.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/hooks.h"
#include "cli/source.h"
#include "client/local.h"
#include "fleet/survey.h"
#include "protocol/routes.h"

namespace gpuyard::cli::slurm {
namespace {

// How long the nodes may take until a job is over there, and all of it is counted.
constexpr Duration kSettles = std::chrono::seconds(30);

// What a job used on one node, or on all.
struct JobUse {
  std::size_t gpus = 0;
  double joules = 0;
  double busy = 0;  // percent x GPU-seconds
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  bool whole = true;  // all of it was counted

  void add(const JobUse& more) {
    gpus += more.gpus;
    joules += more.joules;
    busy += more.busy;
    seconds += more.seconds;
    peak_bytes += more.peak_bytes;
    whole = whole && more.whole;
  }
};

JobUse use_of(const protocol::Lease& lease) {
  constexpr double kMillijoules = 1000;
  JobUse use;
  use.gpus = lease.gpus.size();
  use.whole = lease.use && lease.use->settled && lease.use->energy_mj;
  if (!lease.use) return use;
  use.joules = static_cast<double>(lease.use->energy_mj.value_or(0)) / kMillijoules;
  use.seconds = lease.use->held_s * static_cast<double>(use.gpus);
  use.busy = lease.use->mean_utilization_percent.value_or(0) * use.seconds;
  use.peak_bytes = lease.use->peak_memory_bytes.value_or(0);
  return use;
}

// A node without a lease of the job has had no GPU for it. A daemon that cannot be asked is given
// up soon: until then the job is shown as completing.
Result<JobUse> ask_use(const http::Endpoint& daemon, const std::string& job) {
  constexpr auto kLook = std::chrono::milliseconds(500);
  const TimePoint begin = BootClock::now();
  while (true) {
    const auto answer = client::call(daemon, protocol::kSlurmJob, {job});
    const Duration waited = BootClock::now() - begin;
    if (answer && answer->lease.use && answer->lease.use->settled) return use_of(answer->lease);
    if (answer && waited >= kSettles) return use_of(answer->lease);
    if (!answer && answer.error().code == Errc::not_found) return JobUse{};
    if (!answer && waited >= kPatience) return answer.error();
    std::this_thread::sleep_for(kLook);
  }
}

// YAML, and JSON but for the quotes: sacctmgr makes backticks of those.
std::string text_of(const JobUse& use) {
  std::string text = fmt::format("{{gpuyard: {{joules: {:.1f}, gpus: {}", use.joules, use.gpus);
  if (use.seconds > 0) {
    text += fmt::format(", mean_utilization_percent: {:.1f}", use.busy / use.seconds);
  }
  text += fmt::format(", peak_memory_bytes: {}", use.peak_bytes);
  return text + (use.whole ? "}}" : ", incomplete: true}}");
}

Result<std::vector<fleet::Host>> hosts_of_nodes(const SlurmVerb& verb,
                                                const std::vector<std::string>& nodes) {
  if (verb.url.empty()) return fleet::hosts_of(nodes, hosts_file(Environment::of_process()));
  std::vector<fleet::Host> hosts;
  for (const std::string& node : nodes) {
    std::string url = verb.url;
    for (auto at = url.find("{}"); at != std::string::npos; at = url.find("{}", at)) {
      url.replace(at, 2, node);
      at += node.size();
    }
    hosts.push_back({node, url});
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

Result<JobUse> ask_all(const SlurmVerb& verb, const std::string& job) {
  const auto nodes = hosts_in(std::string(environment_variable("SLURM_JOB_NODELIST")));
  if (!nodes) return nodes.error();
  const auto hosts = hosts_of_nodes(verb, *nodes);
  if (!hosts) return hosts.error();
  fleet::Manner manner;
  manner.keys = client::keys_of(Environment::of_process());
  manner.keys.ssh = {.guarded = true, .patience = kPatience};
  fleet::Survey<JobUse> survey(*hosts, manner,
                               [&](const auto& daemon) { return ask_use(daemon, job); });
  survey.crew().finish();
  JobUse sum;
  for (const auto& heard : survey.heard()) {
    sum.add(heard.answer);
    if (!heard.problem) continue;
    sum.whole = false;
    say(fmt::format("job {}: {}: {}", job, heard.host.name, heard.problem->message));
  }
  return sum;
}

// slurmdbd may hear of the job's end later than we do.
Result<std::string> write_comment(const std::string& text) {
  constexpr auto kAgain = std::chrono::seconds(1);
  const TimePoint end = BootClock::now() + kSettles;
  while (true) {
    auto done = run({"sacctmgr", "-i", "modify", "job", "where", "jobid=" + selector(), "set",
                     "AdminComment=" + text});
    const bool unheard =
        !done && done.error().message.find("Nothing modified") != std::string::npos;
    if (!unheard || BootClock::now() >= end) return done;
    std::this_thread::sleep_for(kAgain);
  }
}

}  // namespace

// Whatever goes wrong, a comment is not worth a failed hook.
int comment(const SlurmVerb& verb) {
  const std::string job(environment_variable("SLURM_JOB_ID"));
  if (job.empty()) {
    return complain({Errc::invalid,
                     "SLURM_JOB_ID is not set: Slurm runs this as its "
                     "EpilogSlurmctld, see docs/slurm.md"});
  }
  const auto use = ask_all(verb, job);
  if (!use) {
    say(fmt::format("job {}: {}", job, use.error().message));
    return 0;
  }
  if (use->gpus == 0) return 0;
  const auto there = run({"sacct", "-X", "-n", "-P", "-o", "AdminComment", "-j", selector()});
  if (there && !there->empty() && !there->starts_with("{gpuyard:")) {
    say(fmt::format("job {} has an AdminComment already, which stays; it would be {}", job,
                    text_of(*use)));
    return 0;
  }
  const auto done = write_comment(text_of(*use));
  if (!done) say(fmt::format("job {}: {}", job, done.error().message));
  return 0;
}

}  // namespace gpuyard::cli::slurm
