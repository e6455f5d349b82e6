#include "cli/slurm/hooks.h"

#include <sys/stat.h>
#include <syslog.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/terminal.h"
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

// How long the daemon may take. It answers from memory, also while a driver hangs.
constexpr Duration kAnswer = milliseconds(200);

// slurmd shows nobody what a hook prints.
void report(const std::string& text) {
  say(text);
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
  Result<Answer> ask(const protocol::Route<Params, Answer, Body>& route,
                     const Params& parameters = {}, const Body& body = {}) {
    if (!daemon_) {
      auto found = lease_daemon(socket_);
      if (!found) return std::move(found).error();
      daemon_ = *std::move(found);
    }
    return client::call(*daemon_, route, parameters, body, kAnswer);
  }

  // Tells the daemon what keeps us from our work, so that an alert fires until a check goes well.
  void tell_trouble(const std::string& text) {
    report(text);
    Told told = spool_.told().value_or(Told{});
    told.trouble = text.substr(0, protocol::kLongestNote);
    spool_.tell(told);
    static_cast<void>(ask(protocol::kCheckSlurm, {}, {told.trouble}).ok());
  }

  enum class Age : std::uint8_t { any, young };
  Result<std::vector<std::int64_t>> minors(Duration patience, Age);
  Result<protocol::SlurmBegun> tell_begin(const std::string& job, const JobNote&,
                                          Duration patience);
  std::optional<std::string> review(const protocol::SlurmNode&, bool anew);
  std::optional<std::string> deliver();
  bool tell_end(const std::string& job);
  bool tell_noted_end(const std::string& job);
  void end_forgotten(const protocol::SlurmNode&);

 private:
  Spool spool_;
  std::string node_;
  std::string socket_;
  std::optional<http::Endpoint> daemon_;
};

// Slurm's file. A health check is not told which it is; a prolog that was has kept it.
std::string configuration_file(const std::optional<Devices>& known) {
  std::string file = variable("SLURM_CONF");
  if (file.empty() && known) file = known->file;
  if (!file.empty()) return file;
  for (const char* usual : {"/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    if (::access(usual, R_OK) == 0) return usual;
  }
  return "";
}

std::string times_of(const std::string& file) {
  std::string text;
  for (const std::string& one : {file, parent_directory(file) + "/gres.conf"}) {
    struct stat facts{};
    if (::stat(one.c_str(), &facts) != 0) continue;
    text += fmt::format("{}.{:09} ", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
  }
  return text;
}

// The GPUs that Slurm hands out, in its order. A file that others include may change unseen.
Result<std::vector<std::int64_t>> Hook::minors(Duration patience, Age age) {
  constexpr std::int64_t kYoung = 600;  // seconds
  const auto known = spool_.devices();
  const std::string file = configuration_file(known);
  const std::string changed = times_of(file);
  const bool same = known && known->file == file && known->changed == changed;
  if (same && (age == Age::any || unix_now() - known->asked_at < kYoung)) return known->minors;
  auto found = ask_minors(node_, file, patience);
  if (found) spool_.keep({file, changed, unix_now(), *found});
  return found;
}

// Errc::unavailable: the daemon is to be told again; so it is after Errc::conflict, which somebody
// has to look at.
Result<protocol::SlurmBegun> Hook::tell_begin(const std::string& job, const JobNote& note,
                                              Duration patience) {
  const auto minors = this->minors(patience, Age::any);
  if (!minors) return Error{Errc::unavailable, minors.error().text()};
  protocol::JobWish wish{note.uid, {}, note.note};
  for (const std::uint32_t place : note.places) {
    if (!minors->empty() && place >= minors->size()) {
      spool_.keep({});  // Slurm's list is another by now
      return Error{Errc::conflict, fmt::format("GPU {} is not in Slurm's list", place)};
    }
    // Without device files in its configuration Slurm counts as the driver does.
    const std::int64_t minor = minors->empty() ? place : (*minors)[place];
    if (minor != kNoGpu) wish.minors.push_back(minor);
  }
  if (wish.minors.empty()) return protocol::SlurmBegun{};  // instances of MIG alone
  return ask(protocol::kBeginJob, {job}, wish);
}

// Drains or resumes the node if that is due. `anew`: asks Slurm although it was told already.
// Returns what went wrong.
std::optional<std::string> Hook::review(const protocol::SlurmNode& node, bool anew) {
  constexpr Duration kPatient = seconds(2);
  const auto minors = this->minors(kPatient, Age::young);
  const std::string reason = reason_for(node, minors ? *minors : std::vector<std::int64_t>());
  const std::string trouble = minors ? "" : minors.error().text();
  const auto wrong = [](const std::string& what) {
    return what.empty() ? std::nullopt : std::optional(what);
  };
  Told told = spool_.told().value_or(Told{});
  if (told.reason == reason && !anew) return wrong(trouble);
  const auto now = ask_node(node_);
  if (!now) return now.error().text();
  const Step step = step_for(*now, reason, told.refused);
  // A controller may do it after we have given up waiting: until it has answered, Slurm is asked
  // anew each time.
  told.trouble = "Slurm has not responded";
  if (step != Step::nothing) spool_.tell(told);
  Result<void> done;
  if (step == Step::drain) done = drain(node_, reason);
  if (step == Step::resume) done = resume(node_);
  if (!done) return done.error().text();
  told.trouble = trouble;
  told.reason = is_ours(*now, step) ? reason : "";
  told.refused = told.refused && step == Step::nothing && !reason.empty();
  spool_.tell(told);
  if (step == Step::drain) report(fmt::format("{} drained: {}", node_, reason));
  if (step == Step::resume) report(fmt::format("{} resumed: its GPUs are healthy", node_));
  return wrong(trouble);
}

bool is_to_be_told_again(const Error& error) {
  return client::passes(error) || error.code == Errc::conflict;
}

// Reports the end of a job. Returns false if it must be reported again, as to a daemon that is
// reading its leases.
bool Hook::tell_end(const std::string& job) {
  const auto over = ask(protocol::kEndJob, {job});
  return over || !client::passes(over.error());
}

// Reports the stored end of a job, if there is one. It stays stored until the report succeeds.
bool Hook::tell_noted_end(const std::string& job) {
  const auto noted = spool_.ended();
  if (std::ranges::find(noted, job) == noted.end()) return true;
  if (!tell_end(job)) return false;
  spool_.drop_end(job);
  return true;
}

// Tells the daemon of jobs that it could not hear of earlier: first of those that are over. Returns
// why one of them cannot be counted.
std::optional<std::string> Hook::deliver() {
  constexpr Duration kPatient = seconds(2);
  std::optional<std::string> wrong;
  for (const std::string& job : spool_.ended()) {
    if (!tell_noted_end(job)) return wrong;
  }
  for (const std::string& job : spool_.begun()) {
    const auto note = spool_.begin_of(job);
    const auto heard = tell_begin(job, note.value_or(JobNote{}), kPatient);
    if (!heard && heard.error().code == Errc::conflict) {
      wrong = fmt::format("job {} not recorded: {}", job, heard.error().text());
    }
    if (!heard && is_to_be_told_again(heard.error())) continue;
    // Its epilog may have run meanwhile, and have found no lease.
    if (!spool_.drop_begin(job) && heard && !tell_end(job)) spool_.note_end(job);
  }
  return wrong;
}

// Ends the leases of jobs that Slurm does not run any more: their epilog never ran. It is asked
// ever more rarely.
void Hook::end_forgotten(const protocol::SlurmNode& node) {
  constexpr std::int64_t kIdle = 600;  // seconds; also the shortest time between questions
  constexpr std::int64_t kRarely = 7200;
  const auto may_be_over = [](const protocol::SlurmJob& job) {
    return job.state == lease::State::held && job.idle_s.value_or(0) >= kIdle;
  };
  Told told = spool_.told().value_or(Told{});
  const std::int64_t now = unix_now();
  const bool any = std::ranges::any_of(node.jobs, may_be_over);
  if (!any && told.jobs_again_s > 0) {
    told.jobs_again_s = 0;
    spool_.tell(told);
  }
  if (!any || now - told.jobs_asked_at < told.jobs_again_s) return;
  for (const protocol::SlurmJob& job : node.jobs) {
    if (!may_be_over(job)) continue;
    const auto running = is_running(job.job);
    if (!running) return;  // the controller is away; the next time is soon enough
    if (!*running) static_cast<void>(ask(protocol::kEndJob, {job.job}).ok());
  }
  told.jobs_asked_at = now;
  told.jobs_again_s = std::clamp(2 * told.jobs_again_s, kIdle, kRarely);
  spool_.tell(told);
}

std::optional<std::string> job_of_hook() {
  std::string job = variable("SLURM_JOB_ID");
  if (!job.empty()) return job;
  complain({Errc::invalid, "SLURM_JOB_ID is not set; Slurm runs this command, see docs/slurm.md"});
  return std::nullopt;
}

Result<JobNote> note_of_job() {
  const auto number_of = [](const std::string& text, const char* name) -> Result<std::uint32_t> {
    if (const auto number = number_in<std::uint32_t>(text)) return *number;
    return Error{Errc::invalid,
                 fmt::format("{} is \"{}\", expected a number", name, printable(text))};
  };
  constexpr std::size_t kMostOfName = 64;
  JobNote note;
  const auto uid = number_of(variable("SLURM_JOB_UID"), "SLURM_JOB_UID");
  if (!uid) return uid.error();
  note.uid = *uid;
  for (const std::string& word : split(variable("SLURM_JOB_GPUS"), ',')) {
    const auto place = number_of(word, "a GPU in SLURM_JOB_GPUS");
    if (!place) return place.error();
    note.places.push_back(*place);
  }
  note.note = fmt::format("Slurm job {} of {}", variable("SLURM_JOB_ID"),
                          printable(variable("SLURM_JOB_USER")).substr(0, kMostOfName));
  return note;
}

// Beginnings that wait for the daemon are of jobs before this one, if they have a GPU of it.
void forget_earlier(const Spool& spool, const std::string& job, const JobNote& note) {
  for (const std::string& other : spool.begun()) {
    const auto before = spool.begin_of(other);
    const bool shares =
        before && std::ranges::find_first_of(before->places, note.places) != before->places.end();
    if (other == job || !before || shares) spool.drop_begin(other);
  }
}

// Waits until what the job has left is gone. Returns what is still there; "": nothing, or it cannot
// be told.
std::string wait_until_gone(Hook& hook, const std::string& job) {
  constexpr Duration kUsual = milliseconds(120);  // what a driver needs to notice
  auto look = milliseconds(1);
  const TimePoint begin = BootClock::now();
  while (true) {
    const auto node = hook.ask(protocol::kSlurm);
    if (!node) return "";
    const auto same = std::ranges::find(node->jobs, job, &protocol::SlurmJob::job);
    if (same == node->jobs.end() || same->state != lease::State::draining) return "";
    const Duration waited = BootClock::now() - begin;
    if (same->draining_s.value_or(0) >= to_seconds(kLeaves)) return same->left;
    if (waited >= 2 * kLeaves || (waited >= kUsual && same->left.empty())) return "";
    std::this_thread::sleep_for(look);
    look = std::min(2 * look, milliseconds(50));
  }
}

// The GPU for which the job must not begin. A driver that hangs drains the node at the next check;
// that is no reason to hold a job, whose GPU may answer in a moment.
const protocol::SlurmGpu* bar_to(const protocol::SlurmBegun& begun) {
  const auto bars = [](const auto& gpu) { return gpu.rule != "gpu-unresponsive"; };
  const auto found = std::ranges::find_if(begun.sick, bars);
  return found == begun.sick.end() ? nullptr : &*found;
}

// Drains the node, if nobody else looks after it just now.
void review_at_once(Hook& hook) {
  const auto lock = hook.spool().lock(seconds(1));
  if (!lock) return;  // a health check runs; the next one will see what this one does not
  const auto node = hook.ask(protocol::kSlurm);
  if (!node) return;
  if (const auto trouble = hook.review(*node, true)) hook.tell_trouble(*trouble);
}

}  // namespace

int health(const SlurmVerb& verb) {
  Hook hook(verb);
  if (hook.node().empty()) {
    return complain({Errc::invalid,
                     "SLURMD_NODENAME is not set; Slurm runs this command as its "
                     "HealthCheckProgram, see docs/slurm.md"});
  }
  // Slurm begins the next check though the last has not ended.
  const auto lock = hook.spool().lock(Duration::zero());
  if (!lock && lock.error().code == Errc::conflict) return 0;
  const auto before = hook.spool().told();
  const auto node = hook.ask(protocol::kCheckSlurm);
  if (!node) {
    report("node not checked: " + node.error().text());
    return 0;
  }
  const auto undelivered = hook.deliver();
  auto trouble = hook.review(*node, !before || !before->trouble.empty() || before->refused);
  hook.end_forgotten(*node);
  if (!trouble) trouble = undelivered;
  if (!lock) trouble = lock.error().text();
  if (trouble) {
    hook.tell_trouble(*trouble);
  } else if (!node->trouble.empty() || (before && !before->trouble.empty())) {
    Told told = hook.spool().told().value_or(Told{});
    told.trouble.clear();
    hook.spool().tell(told);
    static_cast<void>(hook.ask(protocol::kCheckSlurm, {}, {""}).ok());
  }
  return 0;
}

int prolog(const SlurmVerb& verb) {
  constexpr Duration kShort = milliseconds(150);
  const auto job = job_of_hook();
  if (!job || variable("SLURM_JOB_GPUS").empty()) return 0;
  Hook hook(verb);
  const auto note = note_of_job();
  if (!note) {
    hook.tell_trouble(fmt::format("job {} not recorded: {}", *job, note.error().text()));
    return 0;
  }
  // A stored end is that of the job's previous run. It is reported first: the daemon would
  // otherwise take this run for the previous one.
  const bool in_order = hook.tell_noted_end(*job);
  forget_earlier(hook.spool(), *job, *note);
  const auto begun =
      in_order ? hook.tell_begin(*job, *note, kShort)
               : Result<protocol::SlurmBegun>(Error{
                     Errc::unavailable, "the end of the job's previous run is not reported yet"});
  if (!begun && is_to_be_told_again(begun.error())) {
    hook.spool().note_begin(*job, *note);
    const std::string text = fmt::format("job {} not recorded yet: {}", *job, begun.error().text());
    if (begun.error().code == Errc::conflict) {
      hook.tell_trouble(text);
    } else {
      report(text);
    }
    return 0;
  }
  if (!begun || !begun->unknown.empty()) {
    hook.tell_trouble(begun
                          ? fmt::format("job {} has /dev/nvidia{}, but the driver has no such GPU",
                                        *job, begun->unknown.front())
                          : fmt::format("job {} not recorded: {}", *job, begun.error().text()));
  }
  const protocol::SlurmGpu* const sick = begun ? bar_to(*begun) : nullptr;
  if (sick == nullptr) return 0;
  report(fmt::format("job {} not started: {}", *job, sick_text(*sick)));
  Told told = hook.spool().told().value_or(Told{});
  told.refused = true;
  hook.spool().tell(told);
  review_at_once(hook);
  return 1;
}

// An epilog may not be told of its job's GPUs, as when the controller was away: each job is ended.
int epilog(const SlurmVerb& verb) {
  const auto job = job_of_hook();
  if (!job) return 0;
  Hook hook(verb);
  hook.spool().drop_begin(*job);
  const auto over = hook.ask(protocol::kEndJob, {*job});
  if (!over && client::passes(over.error())) {
    hook.spool().note_end(*job);
    report(fmt::format("end of job {} not delivered yet: {}", *job, over.error().text()));
  } else if (!over && over.error().code != Errc::not_found) {
    hook.tell_trouble(fmt::format("job {} not ended: {}", *job, over.error().text()));
  } else if (over && !wait_until_gone(hook, *job).empty()) {
    review_at_once(hook);
  }
  return 0;
}

}  // namespace gpuyard::cli::slurm
