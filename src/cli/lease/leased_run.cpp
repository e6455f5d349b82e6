#include "cli/lease/leased_run.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <ranges>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "cli/control/control_daemon.h"
#include "cli/control/control_request.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/terminal.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using State = gpuyard::lease::State;
using NewsKind = client::ClaimEvent::Kind;

// How long a daemon that is away is asked again. A daemon that restarts is back by then.
constexpr Duration kInsists = std::chrono::seconds(30);
constexpr Duration kAskAgain = std::chrono::milliseconds(500);
// How long to wait for the final use. The daemon counts it at most 5 s after the lease's end.
constexpr Duration kSettles = std::chrono::seconds(6);
constexpr Duration kLooksAgain = std::chrono::milliseconds(25);

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

std::string uuids_of(const std::vector<protocol::LeasedGpu>& gpus) {
  return fmt::format("{}",
                     fmt::join(gpus | std::views::transform(&protocol::LeasedGpu::uuid), ","));
}

std::string left_text(const std::vector<OrphanProcess>& left, const protocol::Lease& lease) {
  constexpr std::size_t kMostNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < left.size() && i < kMostNamed; ++i) {
    names += fmt::format("{}{} {}", i == 0 ? "" : ", ", printable(left[i].name), left[i].pid);
  }
  if (left.size() > kMostNamed) names += ", ...";
  const bool one = left.size() == 1;
  return fmt::format("{} process{} left behind still run{} ({}); {} stay{} leased until {} exited",
                     left.size(), one ? "" : "es", one ? "s" : "", names, gpus_text(lease.gpus),
                     lease.gpus.size() == 1 ? "s" : "", one ? "it has" : "they have");
}

}  // namespace

std::vector<std::string> with_gpus(std::vector<std::string> words,
                                   const std::vector<protocol::LeasedGpu>& gpus) {
  for (std::string& word : words) {
    replace_all(word, "{uuids}", uuids_of(gpus));
    replace_all(word, "{indices}", indexes_text(gpus));
  }
  return words;
}

Job::Variables variables_of(const protocol::Lease& lease, const http::Endpoint& daemon) {
  std::string place = daemon.text();
  if (daemon.kind == http::Endpoint::Kind::unix_socket) {
    std::error_code failed;  // our directory may be gone: then the path stays as given
    const auto path = std::filesystem::absolute(daemon.path, failed);
    place = failed ? daemon.path : path.string();
  }
  const bool far = daemon.elsewhere();
  Job::Variables variables = {{"CUDA_VISIBLE_DEVICES", uuids_of(lease.gpus)},
                              {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                              {"GPUYARD_LEASE", lease.id},
                              {"GPUYARD_FENCE", std::to_string(lease.fence.value_or(0))},
                              {far ? "GPUYARD_HOST" : "GPUYARD_SOCKET", std::move(place)}};
  // One that is set and says something else would be a second daemon.
  const char* const other = far ? "GPUYARD_SOCKET" : "GPUYARD_HOST";
  if (!environment_variable(other).empty()) variables.emplace_back(other, "");
  return variables;
}

LeasedRun::LeasedRun(const RunVerb& verb, const http::Endpoint& daemon, const JobSignals& signals,
                     client::ClaimFollower& feed, protocol::Lease lease, const UniqueFd& summary)
    : verb_(verb),
      daemon_(daemon),
      signals_(signals),
      feed_(feed),
      lease_(std::move(lease)),
      summary_(summary),
      began_(BootClock::now()) {}

int LeasedRun::run() {
  if (const auto failed = start()) {
    release();
    write_summary(*failed);
    if (told_to_end_ && told_to_end_->number == SIGINT && told_to_end_->from_terminal) {
      end_as_interrupted(false);
    }
    return *failed;
  }
  const JobEnd end = wait();
  seconds_ = std::chrono::duration<double>(BootClock::now() - began_).count();
  left_ = left_behind();  // before the release: they are our children only until we end
  release();
  say_summary();
  write_summary(end.exit_code);
  if (end.interrupted) end_as_interrupted(job_->is_apart());
  return end.exit_code;
}

std::optional<int> LeasedRun::start() {
  if (auto limited = limit_power(); !limited) {
    complain(std::move(limited).error().in("the command was not started: setting its power limit"));
    return exit_code_of(Errc::denied);
  }
  auto job = Job::start_held(with_gpus(verb_.command, lease_.gpus), variables_of(lease_, daemon_),
                             signals_);
  if (!job) return complain(job.error());
  job_.emplace(*std::move(job));
  auto known = insist([this] { return register_command(); });
  if (!told_to_end_) told_to_end_ = signals_.take_end(Duration::zero());
  if (told_to_end_) {
    job_->give_up();
    return kSignalled + told_to_end_->number;
  }
  if (!known) {
    job_->give_up();
    return complain(std::move(known).error().in("the command was not started"));
  }
  began_ = BootClock::now();
  return job_->let_go();
}

Result<void> LeasedRun::limit_power() {
  if (verb_.power_limit.empty()) return {};
  const auto watts = parse_watts(verb_.power_limit);
  if (!watts) return watts.error();
  protocol::PowerLimitWish wish;
  wish.power_limit_mw = *watts;
  wish.atomic = true;
  wish.lease = lease_.id;  // so that the limit ends with the lease
  wish.fence = lease_.fence;
  const auto changes = client::call(daemon_, protocol::kSetPowerLimit, {uuids_of(lease_.gpus)},
                                    wish, kChangeDeadline);
  if (!changes) return changes.error();
  for (const protocol::Change& change : changes->changes) {
    if (change.error) {
      return Error{Errc::denied, fmt::format("GPU {}: {}", change.index.value_or(0),
                                             printable(change.error->message))};
    }
  }
  return {};
}

template <class Ask>
auto LeasedRun::insist(Ask ask) -> decltype(ask()) {
  const TimePoint until = BootClock::now() + kInsists;
  for (bool said = false;; said = true) {
    auto answer = ask();
    if (answer || !client::passes(answer.error()) || BootClock::now() >= until) return answer;
    if (!said) {
      remark(fmt::format("{}; retrying for {} s", answer.error().text(),
                         std::chrono::floor<std::chrono::seconds>(kInsists).count()));
    }
    if (const auto told = signals_.take_end(kAskAgain)) {
      told_to_end_ = told;
      return answer;
    }
  }
}

Result<void> LeasedRun::register_command() {
  protocol::MemberWish wish;
  wish.pid = static_cast<std::uint32_t>(job_->pid());
  wish.fence = lease_.fence;
  const auto answer = client::call(daemon_, protocol::kAddMember, {lease_.id}, wish);
  if (!answer) return answer.error();
  simulated_ = answer->simulated;
  return {};
}

JobEnd LeasedRun::wait() {
  if (const auto end = job_->look()) return *end;  // it may have ended before it was let go
  for (;;) {
    while (const auto signal = signals_.take()) {
      if (signal->number != SIGCHLD) {
        job_->pass_on(*signal);
      } else if (const auto end = job_->look()) {
        return *end;
      }
    }
    for (const client::ClaimEvent& news : feed_.take()) hear(news);
    std::array<pollfd, 2> polled{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{feed_.descriptor(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), -1);
  }
}

void LeasedRun::hear(const client::ClaimEvent& news) {
  switch (news.kind) {
    case NewsKind::away:
      return remark(news.error.message + "; the command keeps running, reconnecting to the daemon");
    case NewsKind::back:
      return remark("reconnected to the daemon");
    case NewsKind::alert:
      return remark_alert(news.alert);
    case NewsKind::anew:
      return;  // only of a claim that waits
    case NewsKind::refused:
      lost_ = true;
      return remark(news.error.text() +
                    "; the command keeps running, but its GPUs may be leased to others");
    case NewsKind::changed:
      break;
  }
  const bool overdue = news.lease.overdue && !lease_.overdue;
  const bool ended = !lost_ && news.lease.state != State::held;
  lease_ = news.lease;
  if (overdue) remark("the command has exceeded --max-time");
  if (!ended) return;
  lost_ = true;
  remark(ending_text(lease_) +
         "; the command keeps running, and its GPUs stay reserved until it exits");
}

void LeasedRun::remark_alert(const protocol::Alert& alert) {
  const std::string message = printable(alert.message);
  if (alert.state == andon::State::resolved) return remark("resolved: " + message);
  if (alert.acknowledged) {
    return remark(
        fmt::format("acknowledged by {}: {}", printable(alert.acknowledged->by), message));
  }
  remark(
      fmt::format("ALERT [severity {}]: {}. {}", alert.severity, message, printable(alert.advice)));
}

void LeasedRun::release() {
  protocol::ReleaseQuery query;
  query.lease = lease_.id;
  query.fence = lease_.fence;
  const auto ask = [&] { return client::call(daemon_, protocol::kRelease, query); };
  auto answer = lost_ ? ask() : insist(ask);
  if (answer) {
    lease_ = std::move(answer->lease);
    simulated_ = answer->simulated;
    using gpuyard::lease::Ending;
    const auto ending = lease_.ending.value_or(Ending::released);
    // The command's end may be seen before the news of why the lease ended.
    const bool by_others = ending == Ending::forced || ending == Ending::expired;
    if (by_others && !std::exchange(lost_, true)) remark(ending_text(lease_));
    // Processes left behind may use the GPUs for long: their use is not waited for.
    if (left_.empty()) wait_for_its_use();
    return;
  }
  lease_.use.reset();  // it is from an earlier moment
  if (!lost_) {
    notes_.push_back(printable(answer.error().text()));
    complain(std::move(answer).error().in("releasing the lease"));
    say("the daemon will notice by itself that the command has ended");
  }
}

void LeasedRun::wait_for_its_use() {
  const TimePoint until = BootClock::now() + kSettles;
  while (lease_.use && !lease_.use->settled && BootClock::now() < until) {
    if (signals_.take_end(kLooksAgain)) return;  // the command is over: only the figure is missing
    auto answer = client::call(daemon_, protocol::kLease, {lease_.id});
    if (!answer || !answer->lease.use) return;
    lease_.use = answer->lease.use;
  }
}

void LeasedRun::say_summary() const {
  if (verb_.quiet) return;
  say(summary_text(lease_, seconds_));
  if (!left_.empty()) say(left_text(left_, lease_));
}

void LeasedRun::write_summary(int exit_code) const {
  if (!summary_) return;
  RunAnswer answer{.simulated = simulated_,
                   .command = verb_.command,
                   .exit_code = exit_code,
                   .seconds = seconds_,
                   .lease = lease_,
                   .left_behind = {},
                   .notes = notes_};
  for (const OrphanProcess& one : left_) {
    answer.left_behind.push_back({static_cast<std::uint32_t>(one.pid), one.name});
  }
  const auto written = write_all(summary_, "the summary", json_line(answer));
  if (!written) complain(Error(written.error()).in("--report"));
}

void LeasedRun::remark(const std::string& text) {
  notes_.push_back(printable(text));
  say(printable(text));
}

}  // namespace gpuyard::cli
