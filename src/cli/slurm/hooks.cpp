#include "cli/slurm/hooks.h"

#include <sys/stat.h>
#include <syslog.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/node.h"
#include "cli/slurm/spool.h"
#include "client/daemon_client.h"
#include "protocol/routes.h"

namespace gpuyard::cli::slurm {
namespace {

using protocol::JobWish;

// How long the daemon may take. It answers from memory, also while a driver hangs.
constexpr Duration kAnswer = std::chrono::milliseconds(200);

// slurmd shows nobody what a hook prints.
void report(const std::string& text) {
  say(text);
  ::openlog("gpuyard-slurm", LOG_PID, LOG_DAEMON);
  ::syslog(LOG_ALERT, "%s", text.c_str());
}

std::string variable(const char* name) {
  return std::string(environment_variable(name));
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

  // Tells the daemon what keeps us from our work, so that an alert fires until it is over.
  void tell_trouble(const std::string& text) {
    report(text);
    Told told = spool_.told().value_or(Told{});
    told.trouble = text.substr(0, protocol::kLongestNote);
    spool_.tell(told);
    static_cast<void>(ask(protocol::kCheckSlurm, {}, {told.trouble}).ok());
  }

  Result<std::vector<std::int64_t>> minors();
  std::optional<std::string> review(const protocol::SlurmNode&, bool anew);
  void deliver();
  void end_forgotten(const protocol::SlurmNode&);

 private:
  Spool spool_;
  std::string node_;
  std::string socket_;
  std::optional<http::Endpoint> daemon_;
};

// Names Slurm's files and when each was changed: until one is, its GPUs are the same. A health
// check is not told which they are; a prolog that was has kept it.
std::string configuration_now(const std::optional<Devices>& known) {
  std::string file = variable("SLURM_CONF");
  if (file.empty() && known) file = known->configuration.substr(0, known->configuration.find(' '));
  if (file.empty()) file = "/etc/slurm/slurm.conf";
  std::string text = file;
  for (const std::string& one : {file, parent_directory(file) + "/gres.conf"}) {
    struct stat facts{};
    if (::stat(one.c_str(), &facts) != 0) continue;
    text += fmt::format(" {}.{:09}", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
  }
  return text;
}

// The GPUs that Slurm hands out, in its order.
Result<std::vector<std::int64_t>> Hook::minors() {
  const auto known = spool_.devices();
  const std::string configuration = configuration_now(known);
  if (known && known->configuration == configuration) return known->minors;
  auto found = ask_minors(node_, configuration.substr(0, configuration.find(' ')));
  if (found) spool_.keep({configuration, *found});
  return found;
}

// Drains or resumes the node if that is due. `anew`: asks Slurm although it was told already.
// Returns what went wrong.
std::optional<std::string> Hook::review(const protocol::SlurmNode& node, bool anew) {
  const auto minors = this->minors();
  const std::string reason = reason_for(node, minors ? *minors : std::vector<std::int64_t>());
  std::optional<std::string> trouble;
  if (!minors) trouble = minors.error().message;
  const auto before = spool_.told();
  if (before && before->reason == reason && !anew) return trouble;
  const auto now = ask_node(node_);
  if (!now) return now.error().message;
  const Step step = step_for(*now, reason);
  // A controller may do it after we have given up waiting: until it has answered, Slurm is asked
  // anew each time.
  Told told = before.value_or(Told{});
  told.trouble = "Slurm has not answered";
  if (step != Step::nothing) spool_.tell(told);
  Result<void> done;
  if (step == Step::drain) done = drain(node_, reason);
  if (step == Step::resume) done = resume(node_);
  if (!done) return done.error().message;
  told = {reason, trouble.value_or(""), told.jobs_asked_at};
  spool_.tell(told);
  if (step == Step::drain) report(fmt::format("{} is drained: {}", node_, reason));
  if (step == Step::resume) report(fmt::format("{} is resumed: its GPUs are well", node_));
  return trouble;
}

// Tells the daemon of jobs that it could not hear of earlier.
void Hook::deliver() {
  for (const std::string& job : spool_.begun()) {
    const auto wish = spool_.begin_of(job);
    const auto heard = ask(protocol::kBeginJob, {job}, wish.value_or(JobWish{}));
    if (!heard && client::passes(heard.error())) return;
    spool_.drop_begin(job);
  }
  for (const std::string& job : spool_.ended()) {
    const auto heard = ask(protocol::kEndJob, {job});
    if (!heard && client::passes(heard.error())) return;
    spool_.drop_end(job);
  }
}

// Ends the leases of jobs that Slurm does not know any more: their epilog never ran.
void Hook::end_forgotten(const protocol::SlurmNode& node) {
  constexpr double kIdle = 600;                  // seconds
  constexpr std::int64_t kAskedEvery = 10 * 60;  // seconds
  const auto may_be_over = [](const protocol::SlurmJob& job) {
    return job.state == lease::State::held && job.idle_s.value_or(0) >= kIdle;
  };
  const std::int64_t now = wall_now().time_since_epoch() / std::chrono::seconds(1);
  Told told = spool_.told().value_or(Told{});
  if (std::ranges::none_of(node.jobs, may_be_over) || now - told.jobs_asked_at < kAskedEvery)
    return;
  told.jobs_asked_at = now;
  spool_.tell(told);
  const auto running = jobs_on(node_);
  if (!running) return;  // the controller is away; the next time is soon enough
  for (const protocol::SlurmJob& job : node.jobs) {
    if (!may_be_over(job) || running->contains(job.job)) continue;
    static_cast<void>(ask(protocol::kEndJob, {job.job}).ok());
  }
}

// A variable of Slurm's that is a number.
Result<std::uint32_t> number_in(const std::string& text, std::string_view name) {
  std::uint32_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc() && end == last) return number;
  return Error{Errc::invalid, fmt::format("{} is \"{}\", and no number", name, printable(text))};
}

std::optional<std::string> job_of_hook() {
  const std::string job = variable("SLURM_JOB_ID");
  if (!job.empty()) return job;
  complain({Errc::invalid, "SLURM_JOB_ID is not set: Slurm runs this, see docs/slurm.md"});
  return std::nullopt;
}

Result<JobWish> wish_of_job(Hook& hook) {
  const auto uid = number_in(variable("SLURM_JOB_UID"), "SLURM_JOB_UID");
  if (!uid) return uid.error();
  const auto minors = hook.minors();
  if (!minors) return minors.error();
  JobWish wish;
  wish.uid = *uid;
  for (const std::string& word : split(variable("SLURM_JOB_GPUS"), ',')) {
    const auto place = number_in(word, "a GPU in SLURM_JOB_GPUS");
    if (!place) return place.error();
    // Without device files in its configuration Slurm counts as the driver does.
    wish.minors.push_back(*place < minors->size() ? (*minors)[*place] : *place);
  }
  wish.note = fmt::format("Slurm job {} of {}", variable("SLURM_JOB_ID"),
                          printable(variable("SLURM_JOB_USER")).substr(0, 64));
  return wish;
}

// Beginnings that wait for the daemon are of jobs before this one, if they have a GPU of it.
void forget_earlier(const Spool& spool, const JobWish& wish) {
  for (const std::string& job : spool.begun()) {
    const auto other = spool.begin_of(job);
    const bool shares =
        other && std::ranges::find_first_of(other->minors, wish.minors) != other->minors.end();
    if (!other || shares) spool.drop_begin(job);
  }
}

// What is left of a job that is over; "": nothing, or it cannot be told.
std::string wait_until_gone(Hook& hook, const std::string& job) {
  using std::chrono::milliseconds;
  constexpr Duration kUsual = milliseconds(120);  // what a driver needs to notice
  constexpr Duration kPatient = std::chrono::seconds(2);
  constexpr auto kLook = milliseconds(5);
  const TimePoint begin = BootClock::now();
  while (true) {
    const auto node = hook.ask(protocol::kSlurm);
    if (!node) return "";
    const auto same = std::ranges::find(node->jobs, job, &protocol::SlurmJob::job);
    if (same == node->jobs.end() || same->state != lease::State::draining) return "";
    const Duration waited = BootClock::now() - begin;
    if (waited >= kPatient) return same->left;
    if (waited >= kUsual && same->left.empty()) return "";
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

int health(const SlurmVerb& verb) {
  Hook hook(verb);
  if (hook.node().empty()) {
    return complain({Errc::invalid,
                     "SLURMD_NODENAME is not set: Slurm runs this as its "
                     "HealthCheckProgram, see docs/slurm.md"});
  }
  const auto lock = hook.spool().lock();
  if (!lock && lock.error().code == Errc::conflict) return 0;
  const auto before = hook.spool().told();
  const auto node = hook.ask(protocol::kCheckSlurm);
  if (!node) {
    report("the node is not checked: " + node.error().message);
    return 0;
  }
  hook.deliver();
  const auto trouble = hook.review(*node, !before || !before->trouble.empty());
  hook.end_forgotten(*node);
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

int begin(const SlurmVerb& verb) {
  const auto job = job_of_hook();
  if (!job || variable("SLURM_JOB_GPUS").empty()) return 0;
  Hook hook(verb);
  const auto wish = wish_of_job(hook);
  if (!wish) {
    hook.tell_trouble(fmt::format("job {} is not counted: {}", *job, wish.error().message));
    return 0;
  }
  const auto begun = hook.ask(protocol::kBeginJob, {*job}, *wish);
  if (!begun && client::passes(begun.error())) {
    hook.spool().note_begin(*job, *wish);
    report(fmt::format("job {} is not counted yet: {}", *job, begun.error().message));
    return 0;
  }
  if (!begun) {
    hook.tell_trouble(fmt::format("job {} is not counted: {}", *job, begun.error().message));
    return 0;
  }
  forget_earlier(hook.spool(), *wish);
  if (!begun->unknown.empty()) {
    hook.tell_trouble(fmt::format("job {} has /dev/nvidia{}, for which the driver has no GPU", *job,
                                  begun->unknown.front()));
  }
  if (begun->sick.empty()) return 0;
  report(fmt::format("job {} is not begun: {}", *job, sick_text(begun->sick.front())));
  if (const auto node = hook.ask(protocol::kSlurm)) {
    if (const auto trouble = hook.review(*node, true)) report(*trouble);
  }
  return 1;
}

// An epilog may not be told of its job's GPUs, as when the controller was away: each job is ended.
int end(const SlurmVerb& verb) {
  const auto job = job_of_hook();
  if (!job) return 0;
  Hook hook(verb);
  hook.spool().drop_begin(*job);
  const auto over = hook.ask(protocol::kEndJob, {*job});
  if (!over && client::passes(over.error())) {
    hook.spool().note_end(*job);
    report(fmt::format("the end of job {} waits: {}", *job, over.error().message));
  } else if (!over && over.error().code != Errc::not_found) {
    hook.tell_trouble(fmt::format("job {} is not ended: {}", *job, over.error().message));
  } else if (over && !wait_until_gone(hook, *job).empty()) {
    const auto node = hook.ask(protocol::kSlurm);
    const auto trouble = node ? hook.review(*node, true) : std::nullopt;
    if (trouble) hook.tell_trouble(*trouble);
  }
  return 0;
}

}  // namespace gpuyard::cli::slurm
