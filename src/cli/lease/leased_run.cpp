#include "cli/lease/leased_run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <ranges>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/control/control_daemon.h"
#include "cli/control/control_request.h"
#include "cli/lease/lease_text.h"
#include "cli/screen/output.h"
#include "faces/client/daemon_client.h"
#include "faces/protocol/routes.h"

namespace gpuyard::cli {
namespace {

using State = gpuyard::lease::LeaseState;
using ClaimEventKind = client::ClaimEvent::Kind;

// The longest time for retries while the daemon is away. A daemon that restarts is back by then.
constexpr Duration kRetryTimeout = std::chrono::seconds(30);
constexpr Duration kRetryDelay = std::chrono::milliseconds(500);
// The longest wait for the final use. The daemon counts it at most 5 s after the lease's end.
constexpr Duration kUsageTimeout = std::chrono::seconds(6);
constexpr Duration kUsagePollInterval = std::chrono::milliseconds(25);

std::string uuids_of(const std::vector<protocol::LeasedGpu>& gpus) {
  return fmt::format("{}",
                     fmt::join(gpus | std::views::transform(&protocol::LeasedGpu::uuid), ","));
}

std::string orphans_text(const std::vector<OrphanProcess>& orphans, const protocol::Lease& lease) {
  constexpr std::size_t kMaxNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < orphans.size() && i < kMaxNamed; ++i) {
    names += fmt::format("{}{} {}", i == 0 ? "" : ", ", printable(orphans[i].name), orphans[i].pid);
  }
  if (orphans.size() > kMaxNamed) names += ", ...";
  const bool one = orphans.size() == 1;
  return fmt::format("{} process{} left behind still run{} ({}); {} stay{} leased until {} exited",
                     orphans.size(), one ? "" : "es", one ? "s" : "", names, gpus_text(lease.gpus),
                     lease.gpus.size() == 1 ? "s" : "", one ? "it has" : "they have");
}

}  // namespace

std::vector<std::string> substitute_gpus(std::vector<std::string> words,
                                         const std::vector<protocol::LeasedGpu>& gpus) {
  for (std::string& word : words) {
    word = replace_all(std::move(word), "{uuids}", uuids_of(gpus));
    word = replace_all(std::move(word), "{indices}", indexes_text(gpus));
  }
  return words;
}

Result<void> limit_power(const http::Endpoint& daemon, const protocol::Lease& lease,
                         const std::string& watts) {
  if (watts.empty()) return {};
  const auto limit = GPUYARD_TRY(parse_watts(watts));
  protocol::PowerLimitRequest request;
  request.power_limit_mw = limit;
  request.atomic = true;
  request.lease = lease.id;  // so that the limit ends with the lease
  request.fence = lease.fence;
  const auto changes = client::call(daemon, protocol::kSetPowerLimit, {uuids_of(lease.gpus)},
                                    request, kChangeTimeout);
  if (!changes) return changes.error();
  for (const protocol::ChangeResult& change : changes->changes) {
    if (change.error) {
      return Error{Errc::denied, fmt::format("GPU {}: {}", change.index.value_or(0),
                                             printable(change.error->message))};
    }
  }
  return {};
}

Result<UniqueFd> open_run_report(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return system_error("--report: opening " + path);
  return file;
}

ForegroundJob::Variables variables_of(const protocol::Lease& lease, const http::Endpoint& daemon) {
  std::string address = daemon.text();
  if (daemon.kind == http::Endpoint::Kind::unix_socket) {
    std::error_code failed;  // our directory may be gone: then the path stays as given
    const auto path = std::filesystem::absolute(daemon.path, failed);
    address = failed ? daemon.path : path.string();
  }
  const bool far = daemon.is_remote();
  ForegroundJob::Variables variables = {
      {"CUDA_VISIBLE_DEVICES", uuids_of(lease.gpus)},
      {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
      {"GPUYARD_LEASE", lease.id},
      {"GPUYARD_FENCE", std::to_string(lease.fence)},
      {far ? "GPUYARD_HOST" : "GPUYARD_SOCKET", std::move(address)}};
  // A set variable with another value would name a second daemon.
  const char* const other = far ? "GPUYARD_SOCKET" : "GPUYARD_HOST";
  if (!environment_variable(other).empty()) variables.emplace_back(other, "");
  return variables;
}

LeasedRun::LeasedRun(const RunVerb& verb, const http::Endpoint& daemon, const JobSignals& signals,
                     client::ClaimFollower& follower, protocol::Lease lease,
                     const UniqueFd& summary)
    : verb_(verb),
      daemon_(daemon),
      signals_(signals),
      follower_(follower),
      lease_(std::move(lease)),
      summary_(summary),
      began_at_(BootClock::now()) {}

int LeasedRun::run() {
  if (const auto failed = start()) {
    release();
    write_summary(*failed);
    if (end_signal_ && end_signal_->number == SIGINT && end_signal_->from_terminal) {
      exit_by_sigint(false);
    }
    return *failed;
  }
  const JobEnd end = wait();
  seconds_ = std::chrono::duration<double>(BootClock::now() - began_at_).count();
  orphans_ = find_orphans();  // before the release: they are our children only until we end
  release();
  print_summary();
  write_summary(end.exit_code);
  if (end.interrupted) exit_by_sigint(job_->has_own_group());
  return end.exit_code;
}

std::optional<int> LeasedRun::start() {
  if (auto limited = limit_power(daemon_, lease_, verb_.power_limit); !limited) {
    print_error(
        std::move(limited).error().in("the command was not started: setting its power limit"));
    return exit_code_of(Errc::denied);
  }
  auto job = ForegroundJob::start_held(substitute_gpus(verb_.command, lease_.gpus),
                                       variables_of(lease_, daemon_), signals_);
  if (!job) return print_error(job.error());
  job_.emplace(*std::move(job));
  auto registered = retry_while_away([this] { return register_command(); });
  if (!end_signal_) end_signal_ = signals_.take_termination(Duration::zero());
  if (end_signal_) {
    job_->abandon();
    return kExitSignalBase + end_signal_->number;
  }
  if (!registered) {
    job_->abandon();
    return print_error(std::move(registered).error().in("the command was not started"));
  }
  began_at_ = BootClock::now();
  return job_->resume();
}

template <class Request>
auto LeasedRun::retry_while_away(Request request) -> decltype(request()) {
  const TimePoint until = BootClock::now() + kRetryTimeout;
  for (bool is_retry = false;; is_retry = true) {
    auto reply = request();
    if (reply || !client::is_transient(reply.error()) || BootClock::now() >= until) return reply;
    if (!is_retry) {
      add_note(fmt::format("{}; retrying for {} s", reply.error().text(),
                           std::chrono::floor<std::chrono::seconds>(kRetryTimeout).count()));
    }
    if (const auto signal = signals_.take_termination(kRetryDelay)) {
      end_signal_ = signal;
      return reply;
    }
  }
}

Result<void> LeasedRun::register_command() {
  protocol::MemberRequest request;
  request.pid = static_cast<std::uint32_t>(job_->pid());
  request.fence = lease_.fence;
  const auto reply = client::call(daemon_, protocol::kAddMember, {lease_.id}, request);
  if (!reply) return reply.error();
  simulated_ = reply->simulated;
  return {};
}

JobEnd LeasedRun::wait() {
  if (const auto end = job_->reap()) return *end;  // it may have ended before it was resumed
  for (;;) {
    while (const auto signal = signals_.take()) {
      if (signal->number != SIGCHLD) {
        job_->forward(*signal);
      } else if (const auto end = job_->reap()) {
        return *end;
      }
    }
    for (const client::ClaimEvent& event : follower_.pop_events()) on_event(event);
    std::array<pollfd, 2> polled{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{follower_.descriptor(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), -1);
  }
}

void LeasedRun::on_event(const client::ClaimEvent& event) {
  switch (event.kind) {
    case ClaimEventKind::away:
      return add_note(event.error.message +
                      "; the command keeps running, reconnecting to the daemon");
    case ClaimEventKind::back:
      return add_note("reconnected to the daemon");
    case ClaimEventKind::alert:
      return add_alert_note(event.alert);
    case ClaimEventKind::resubmitted:
      return;  // only of a claim that waits
    case ClaimEventKind::refused:
      lease_lost_ = true;
      return add_note(event.error.text() +
                      "; the command keeps running, but its GPUs may be leased to others");
    case ClaimEventKind::changed:
      break;
  }
  const bool overdue = event.lease.overdue && !lease_.overdue;
  const bool ended = !lease_lost_ && event.lease.state != State::held;
  lease_ = event.lease;
  if (overdue) add_note("the command has exceeded --max-time");
  if (!ended) return;
  lease_lost_ = true;
  add_note(ending_text(lease_) +
           "; the command keeps running, and its GPUs stay reserved until it exits");
}

void LeasedRun::add_alert_note(const protocol::Alert& alert) {
  const std::string message = printable(alert.message);
  if (alert.state == andon::AlertState::resolved) return add_note("resolved: " + message);
  if (alert.acknowledged) {
    return add_note(
        fmt::format("acknowledged by {}: {}", printable(alert.acknowledged->by), message));
  }
  add_note(
      fmt::format("ALERT [severity {}]: {}. {}", alert.severity, message, printable(alert.advice)));
}

void LeasedRun::release() {
  protocol::ReleaseQuery query;
  query.lease = lease_.id;
  query.fence = lease_.fence;
  const auto request = [&] { return client::call(daemon_, protocol::kRelease, query); };
  auto reply = lease_lost_ ? request() : retry_while_away(request);
  if (reply) {
    lease_ = std::move(reply->lease);
    simulated_ = reply->simulated;
    using gpuyard::lease::EndReason;
    const auto reason = lease_.end_reason.value_or(EndReason::released);
    // The command's end may be seen before the event that says why the lease ended.
    const bool by_others = reason == EndReason::forced || reason == EndReason::expired;
    if (by_others && !std::exchange(lease_lost_, true)) add_note(ending_text(lease_));
    // Processes left behind may use the GPUs for long: their use is not waited for.
    if (orphans_.empty()) wait_for_usage();
    return;
  }
  lease_.use.reset();  // it is from an earlier moment
  if (!lease_lost_) {
    notes_.push_back(printable(reply.error().text()));
    print_error(std::move(reply).error().in("releasing the lease"));
    print_note("the daemon will notice by itself that the command has ended");
  }
}

void LeasedRun::wait_for_usage() {
  const TimePoint until = BootClock::now() + kUsageTimeout;
  while (lease_.use && !lease_.use->settled && BootClock::now() < until) {
    if (signals_.take_termination(kUsagePollInterval))
      return;  // the command is over: only the figure is missing
    auto reply = client::call(daemon_, protocol::kLease, {lease_.id});
    if (!reply || !reply->lease.use) return;
    lease_.use = reply->lease.use;
  }
}

void LeasedRun::print_summary() const {
  if (verb_.quiet) return;
  print_note(summary_text(lease_, seconds_));
  if (!orphans_.empty()) print_note(orphans_text(orphans_, lease_));
}

void LeasedRun::write_summary(int exit_code) const {
  if (!summary_) return;
  RunAnswer answer{
      {.simulated = simulated_}, verb_.command, exit_code, seconds_, lease_, {}, notes_};
  for (const OrphanProcess& one : orphans_) {
    answer.left_behind.push_back({static_cast<std::uint32_t>(one.pid), one.name});
  }
  const auto written = write_all(summary_, "the summary", json_line(answer));
  if (!written) print_error(Error(written.error()).in("--report"));
}

void LeasedRun::add_note(const std::string& text) {
  notes_.push_back(printable(text));
  print_note(printable(text));
}

}  // namespace gpuyard::cli
