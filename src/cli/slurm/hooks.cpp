#include "cli/slurm/hooks.h"

#include <sys/stat.h>
#include <syslog.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/node.h"
#include "cli/slurm/spool.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli::slurm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The longest wait for the daemon. It answers from memory, also while a driver hangs.
constexpr Duration kReplyTimeout = milliseconds(200);

// slurmd shows nobody what a hook prints.
void report(const std::string& text) {
  print_note(text);
  ::openlog("gpuyard-slurm", LOG_PID, LOG_DAEMON);
  ::syslog(LOG_ALERT, "%s", text.c_str());
}

std::string variable(const char* name) {
  return std::string(environment_variable(name));
}

std::int64_t unix_now() {
  return wall_now().time_since_epoch() / seconds(1);
}

// One run of a hook.
class Hook {
 public:
  explicit Hook(const SlurmVerb& verb)
      : spool_(verb.spool), node_(variable("SLURMD_NODENAME")), socket_(verb.socket) {}

  const std::string& node() const { return node_; }
  const Spool& spool() const { return spool_; }

  template <class Params, class Answer, class Body = protocol::NoBody>
  Result<Answer> call_daemon(const protocol::Route<Params, Answer, Body>& route,
                             const Params& parameters = {}, const Body& body = {}) {
    if (!daemon_) {
      daemon_ = GPUYARD_TRY(require_daemon(socket_, "leases need"));
    }
    return client::call(*daemon_, route, parameters, body, kReplyTimeout);
  }

  // Tells the daemon what keeps us from our work, so that an alert fires until a check goes well.
  void report_trouble(const std::string& text) {
    report(text);
    NodeReport node_report = spool_.node_report().value_or(NodeReport{});
    node_report.trouble = text.substr(0, protocol::kMaxNoteBytes);
    spool_.save_node_report(node_report);
    static_cast<void>(call_daemon(protocol::kCheckSlurm, {}, {node_report.trouble}).ok());
  }

  enum class Age : std::uint8_t { any, young };
  Result<std::vector<std::int64_t>> minors(Duration timeout, Age);
  Result<protocol::SlurmJobStarted> send_begin(const std::string& job, const JobNote&,
                                               Duration timeout);
  std::optional<std::string> reconcile_node(const protocol::SlurmNode&, bool resend);
  std::optional<std::string> deliver_saved();
  bool send_end(const std::string& job);
  bool send_saved_end(const std::string& job);
  void end_missed_jobs(const protocol::SlurmNode&);

 private:
  Spool spool_;
  std::string node_;
  std::string socket_;
  std::optional<http::Endpoint> daemon_;
};

// Slurm's configuration file. Slurm names it only to a prolog, which saves it for health checks.
std::string configuration_file(const std::optional<DeviceList>& known) {
  std::string file = variable("SLURM_CONF");
  if (file.empty() && known) file = known->file;
  if (!file.empty()) return file;
  for (const char* usual : {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    if (::access(usual, R_OK) == 0) return usual;
  }
  return "";
}

std::string modification_times(const std::string& file) {
  std::string text;
  for (const std::string& one : {file, parent_directory(file) + "/gres.conf"}) {
    struct stat facts{};
    if (::stat(one.c_str(), &facts) != 0) continue;
    text += fmt::format("{}.{:09} ", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
  }
  return text;
}

// The GPUs that Slurm hands out, in its order. A file that others include may change unseen.
Result<std::vector<std::int64_t>> Hook::minors(Duration timeout, Age age) {
  constexpr std::int64_t kMaxDevicesAge = 600;  // seconds
  const auto known = spool_.devices();
  const std::string file = configuration_file(known);
  const std::string changed = modification_times(file);
  const bool same = known && known->file == file && known->changed == changed;
  if (same && (age == Age::any || unix_now() - known->asked_at < kMaxDevicesAge))
    return known->minors;
  auto found = query_minors(node_, file, timeout);
  if (found) spool_.save_devices({file, changed, unix_now(), *found});
  return found;
}

// Errc::unavailable: the report is to be repeated, as after Errc::conflict, which needs an
// administrator.
Result<protocol::SlurmJobStarted> Hook::send_begin(const std::string& job, const JobNote& note,
                                                   Duration timeout) {
  const auto minors = this->minors(timeout, Age::any);
  if (!minors) return Error{Errc::unavailable, minors.error().text()};
  protocol::SlurmJobRequest request{note.uid, {}, note.note};
  for (const std::uint32_t index : note.places) {
    if (!minors->empty() && index >= minors->size()) {
      spool_.save_devices({});  // Slurm's list is another by now
      return Error{Errc::conflict, fmt::format("GPU {} is not in Slurm's list", index)};
    }
    // Without device files in its configuration Slurm counts as the driver does.
    const std::int64_t minor = minors->empty() ? index : (*minors)[index];
    if (minor != kNoGpu) request.minors.push_back(minor);
  }
  if (request.minors.empty()) return protocol::SlurmJobStarted{};  // instances of MIG alone
  return call_daemon(protocol::kBeginJob, {job}, request);
}

// Drains or resumes the node if that is due. `resend`: queries Slurm in any case.
// Returns what went wrong.
std::optional<std::string> Hook::reconcile_node(const protocol::SlurmNode& node, bool resend) {
  constexpr Duration kSlurmTimeout = seconds(2);
  const auto minors = this->minors(kSlurmTimeout, Age::young);
  const std::string reason = drain_reason(node, minors ? *minors : std::vector<std::int64_t>());
  const std::string trouble = minors ? "" : minors.error().text();
  const auto wrong = [](const std::string& what) {
    return what.empty() ? std::nullopt : std::optional(what);
  };
  NodeReport node_report = spool_.node_report().value_or(NodeReport{});
  if (node_report.reason == reason && !resend) return wrong(trouble);
  const auto now = query_node(node_);
  if (!now) return now.error().text();
  const NodeAction step = action_for(*now, reason, node_report.refused);
  // A controller may do it after we have given up waiting: until it has answered, Slurm is asked
  // again each time.
  node_report.trouble = "Slurm has not responded";
  if (step != NodeAction::nothing) spool_.save_node_report(node_report);
  Result<void> done;
  if (step == NodeAction::drain) done = drain_node(node_, reason);
  if (step == NodeAction::resume) done = resume_node(node_);
  if (!done) return done.error().text();
  node_report.trouble = trouble;
  node_report.reason = has_own_reason(*now, step) ? reason : "";
  node_report.refused = node_report.refused && step == NodeAction::nothing && !reason.empty();
  spool_.save_node_report(node_report);
  if (step == NodeAction::drain) report(fmt::format("{} drained: {}", node_, reason));
  if (step == NodeAction::resume) report(fmt::format("{} resumed: its GPUs are healthy", node_));
  return wrong(trouble);
}

bool needs_resend(const Error& error) {
  return client::is_transient(error) || error.code == Errc::conflict;
}

// Reports the end of a job. Returns false if it must be reported again, as to a daemon that is
// reading its leases.
bool Hook::send_end(const std::string& job) {
  const auto over = call_daemon(protocol::kEndJob, {job});
  return over || !client::is_transient(over.error());
}

// Reports the stored end of a job, if there is one. It stays stored until the report succeeds.
bool Hook::send_saved_end(const std::string& job) {
  const auto saved = spool_.saved_ends();
  if (std::ranges::find(saved, job) == saved.end()) return true;
  if (!send_end(job)) return false;
  spool_.remove_end(job);
  return true;
}

// Reports jobs that could not be reported earlier: first those that are over. Returns why one of
// them cannot be counted.
std::optional<std::string> Hook::deliver_saved() {
  constexpr Duration kSlurmTimeout = seconds(2);
  std::optional<std::string> wrong;
  for (const std::string& job : spool_.saved_ends()) {
    if (!send_saved_end(job)) return wrong;
  }
  for (const std::string& job : spool_.saved_begins()) {
    const auto note = spool_.find_begin(job);
    const auto started = send_begin(job, note.value_or(JobNote{}), kSlurmTimeout);
    if (!started && started.error().code == Errc::conflict) {
      wrong = fmt::format("job {} not recorded: {}", job, started.error().text());
    }
    if (!started && needs_resend(started.error())) continue;
    // Its epilog may have run meanwhile, and have found no lease.
    if (!spool_.remove_begin(job) && started && !send_end(job)) spool_.save_end(job);
  }
  return wrong;
}

// Ends the leases of jobs that Slurm does not run any more: their epilog never ran. It is asked
// ever more rarely.
void Hook::end_missed_jobs(const protocol::SlurmNode& node) {
  constexpr std::int64_t kMinQueryInterval = 600;  // seconds
  constexpr std::int64_t kMaxQueryInterval = 7200;
  const auto may_be_over = [](const protocol::SlurmJob& job) {
    return job.state == lease::LeaseState::held && job.idle_s.value_or(0) >= kMinQueryInterval;
  };
  NodeReport node_report = spool_.node_report().value_or(NodeReport{});
  const std::int64_t now = unix_now();
  const bool any = std::ranges::any_of(node.jobs, may_be_over);
  if (!any && node_report.jobs_again_s > 0) {
    node_report.jobs_again_s = 0;
    spool_.save_node_report(node_report);
  }
  if (!any || now - node_report.jobs_asked_at < node_report.jobs_again_s) return;
  for (const protocol::SlurmJob& job : node.jobs) {
    if (!may_be_over(job)) continue;
    const auto running = is_running(job.job);
    if (!running) return;  // the controller is away; the next time is soon enough
    if (!*running) static_cast<void>(call_daemon(protocol::kEndJob, {job.job}).ok());
  }
  node_report.jobs_asked_at = now;
  node_report.jobs_again_s =
      std::clamp(2 * node_report.jobs_again_s, kMinQueryInterval, kMaxQueryInterval);
  spool_.save_node_report(node_report);
}

std::optional<std::string> job_of_hook() {
  std::string job = variable("SLURM_JOB_ID");
  if (!job.empty()) return job;
  print_error(
      {Errc::invalid, "SLURM_JOB_ID is not set; Slurm runs this command, see docs/slurm.md"});
  return std::nullopt;
}

Result<JobNote> note_of_job() {
  const auto number_of = [](const std::string& text, const char* name) -> Result<std::uint32_t> {
    if (const auto number = parse_number<std::uint32_t>(text)) return *number;
    return Error{Errc::invalid,
                 fmt::format("{} is \"{}\", expected a number", name, printable(text))};
  };
  constexpr std::size_t kMaxNameBytes = 64;
  JobNote note;
  const auto uid = GPUYARD_TRY(number_of(variable("SLURM_JOB_UID"), "SLURM_JOB_UID"));
  note.uid = uid;
  for (const std::string& word : split(variable("SLURM_JOB_GPUS"), ',')) {
    const auto index = GPUYARD_TRY(number_of(word, "a GPU in SLURM_JOB_GPUS"));
    note.places.push_back(index);
  }
  note.note = fmt::format("Slurm job {} of {}", variable("SLURM_JOB_ID"),
                          printable(variable("SLURM_JOB_USER")).substr(0, kMaxNameBytes));
  return note;
}

// Beginnings that wait for the daemon are of jobs before this one, if they have a GPU of it.
void remove_earlier_notes(const Spool& spool, const std::string& job, const JobNote& note) {
  for (const std::string& other : spool.saved_begins()) {
    const auto before = spool.find_begin(other);
    const bool shares =
        before && std::ranges::find_first_of(before->places, note.places) != before->places.end();
    if (other == job || !before || shares) spool.remove_begin(other);
  }
}

// Waits until what the job has left is gone. Returns what is still there; "": nothing, or it is not
// known.
std::string wait_until_gone(Hook& hook, const std::string& job) {
  constexpr Duration kDriverDelay = milliseconds(120);  // what a driver needs to notice
  auto delay = milliseconds(1);
  const TimePoint begin = BootClock::now();
  while (true) {
    const auto node = hook.call_daemon(protocol::kSlurm);
    if (!node) return "";
    const auto same = std::ranges::find(node->jobs, job, &protocol::SlurmJob::job);
    if (same == node->jobs.end() || same->state != lease::LeaseState::draining) return "";
    const Duration waited = BootClock::now() - begin;
    if (same->draining_s.value_or(0) >= to_seconds(kExitGrace)) return same->left;
    if (waited >= 2 * kExitGrace || (waited >= kDriverDelay && same->left.empty())) return "";
    std::this_thread::sleep_for(delay);
    delay = std::min(2 * delay, milliseconds(50));
  }
}

// The GPU for which the job must not begin. A driver that hangs drains the node at the next check;
// that is no reason to hold a job, whose GPU may answer in a moment.
const protocol::SlurmGpu* find_blocking_gpu(const protocol::SlurmJobStarted& started) {
  const auto bars = [](const auto& gpu) { return gpu.rule != "gpu-unresponsive"; };
  const auto found = std::ranges::find_if(started.sick, bars);
  return found == started.sick.end() ? nullptr : &*found;
}

// Drains the node, unless another hook does so just now.
void reconcile_now(Hook& hook) {
  const auto lock = hook.spool().lock(seconds(1));
  if (!lock) return;  // a health check runs; the next one covers what it misses
  const auto node = hook.call_daemon(protocol::kSlurm);
  if (!node) return;
  if (const auto trouble = hook.reconcile_node(*node, true)) hook.report_trouble(*trouble);
}

}  // namespace

int health(const SlurmVerb& verb) {
  Hook hook(verb);
  if (hook.node().empty()) {
    return print_error({Errc::invalid,
                        "SLURMD_NODENAME is not set; Slurm runs this command as its "
                        "HealthCheckProgram, see docs/slurm.md"});
  }
  // Slurm begins the next check though the last has not ended.
  const auto lock = hook.spool().lock(Duration::zero());
  if (!lock && lock.error().code == Errc::conflict) return 0;
  const auto before = hook.spool().node_report();
  const auto node = hook.call_daemon(protocol::kCheckSlurm);
  if (!node) {
    report("node not checked: " + node.error().text());
    return 0;
  }
  const auto undelivered = hook.deliver_saved();
  auto trouble = hook.reconcile_node(*node, !before || !before->trouble.empty() || before->refused);
  hook.end_missed_jobs(*node);
  if (!trouble) trouble = undelivered;
  if (!lock) trouble = lock.error().text();
  if (trouble) {
    hook.report_trouble(*trouble);
  } else if (!node->trouble.empty() || (before && !before->trouble.empty())) {
    NodeReport node_report = hook.spool().node_report().value_or(NodeReport{});
    node_report.trouble.clear();
    hook.spool().save_node_report(node_report);
    static_cast<void>(hook.call_daemon(protocol::kCheckSlurm, {}, {""}).ok());
  }
  return 0;
}

int prolog(const SlurmVerb& verb) {
  constexpr Duration kPrologTimeout = milliseconds(150);
  const auto job = job_of_hook();
  if (!job || variable("SLURM_JOB_GPUS").empty()) return 0;
  Hook hook(verb);
  const auto note = note_of_job();
  if (!note) {
    hook.report_trouble(fmt::format("job {} not recorded: {}", *job, note.error().text()));
    return 0;
  }
  // A stored end is that of the job's previous run. It is reported first: the daemon would
  // otherwise take this run for the previous one.
  const bool in_order = hook.send_saved_end(*job);
  remove_earlier_notes(hook.spool(), *job, *note);
  const auto started =
      in_order ? hook.send_begin(*job, *note, kPrologTimeout)
               : Result<protocol::SlurmJobStarted>(Error{
                     Errc::unavailable, "the end of the job's previous run is not reported yet"});
  if (!started && needs_resend(started.error())) {
    hook.spool().save_begin(*job, *note);
    const std::string text =
        fmt::format("job {} not recorded yet: {}", *job, started.error().text());
    if (started.error().code == Errc::conflict) {
      hook.report_trouble(text);
    } else {
      report(text);
    }
    return 0;
  }
  if (!started || !started->unknown.empty()) {
    hook.report_trouble(
        started ? fmt::format("job {} has /dev/nvidia{}, but the driver has no such GPU", *job,
                              started->unknown.front())
                : fmt::format("job {} not recorded: {}", *job, started.error().text()));
  }
  const protocol::SlurmGpu* const sick = started ? find_blocking_gpu(*started) : nullptr;
  if (sick == nullptr) return 0;
  report(fmt::format("job {} not started: {}", *job, unhealthy_text(*sick)));
  NodeReport node_report = hook.spool().node_report().value_or(NodeReport{});
  node_report.refused = true;
  hook.spool().save_node_report(node_report);
  reconcile_now(hook);
  return 1;
}

// An epilog may not be told of its job's GPUs, as when the controller was away: each job is ended.
int epilog(const SlurmVerb& verb) {
  const auto job = job_of_hook();
  if (!job) return 0;
  Hook hook(verb);
  hook.spool().remove_begin(*job);
  const auto over = hook.call_daemon(protocol::kEndJob, {*job});
  if (!over && client::is_transient(over.error())) {
    hook.spool().save_end(*job);
    report(fmt::format("end of job {} not delivered yet: {}", *job, over.error().text()));
  } else if (!over && over.error().code != Errc::not_found) {
    hook.report_trouble(fmt::format("job {} not ended: {}", *job, over.error().text()));
  } else if (over && !wait_until_gone(hook, *job).empty()) {
    reconcile_now(hook);
  }
  return 0;
}

}  // namespace gpuyard::cli::slurm
