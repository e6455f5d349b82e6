#include "cli/kube/plugin_restarter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "cli/kube/daemon_refusal.h"
#include "io/kube/back_off.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Outcome;

// The GPUs that the plugin hides and that may get work.
std::set<std::string> healthy_ones(const protocol::GpuVerdicts& verdicts,
                                   const std::set<std::string>& hidden) {
  std::set<std::string> healthy;
  for (const protocol::GpuVerdict& gpu : verdicts.gpus) {
    if (gpu.verdict == Verdict::good && !gpu.cordoned && hidden.contains(gpu.uuid)) {
      healthy.insert(gpu.uuid);
    }
  }
  return healthy;
}

// The pod that was listed is gone: there is nothing to report, and the next list has the new one.
bool is_outdated(Outcome outcome) {
  return outcome == Outcome::absent || outcome == Outcome::conflict || outcome == Outcome::gone;
}

// Nothing but a person's change makes the same request succeed.
bool needs_a_person(Outcome outcome) {
  return outcome == Outcome::forbidden || outcome == Outcome::rejected;
}

std::string name_of_pod(const SeenPod& pod) {
  return fmt::format("{}/{}", pod.namespace_name, pod.name);
}

}  // namespace

std::set<std::string> disagreeing_gpus(const protocol::Alerts& alerts) {
  std::set<std::string> uuids;
  for (const protocol::Alert& alert : alerts.alerts) {
    const bool counts = alert.rule == kPluginDisagreesRule &&
                        alert.state == andon::AlertState::firing && alert.device &&
                        !alert.acknowledged && !alert.inhibited_by;
    if (counts) uuids.insert(alert.device->uuid);
  }
  return uuids;
}

std::string restart_obstacle(const protocol::GpuVerdicts& verdicts,
                             const std::set<std::string>& hidden) {
  if (verdicts.driver_down || verdicts.driver_error) return "the driver is not available";
  if (!lists_all_gpus(verdicts)) return "the daemon has no verdict on one of the GPUs";
  for (const protocol::GpuVerdict& gpu : verdicts.gpus) {
    std::string_view state;
    if (gpu.verdict == Verdict::bad) state = "bad";
    if (gpu.verdict == Verdict::unknown) state = "in an unknown state";
    if (gpu.cordoned && hidden.contains(gpu.uuid)) state = "cordoned";
    if (state.empty()) continue;
    return fmt::format("GPU {} is {}, and a plugin that starts would offer it", gpu.index, state);
  }
  return "";
}

Result<SeenPod> choose_plugin_pod(PodPage page, const PluginLabel& label, const std::string& node,
                                  WallTime now) {
  std::erase_if(page.pods, [&](const SeenPod& pod) {
    return pod.node != node || pod.namespace_name != label.namespace_name;
  });
  const auto ending = std::ranges::find(page.pods, true, &SeenPod::is_being_deleted);
  if (ending != page.pods.end()) {
    return Error{Errc::busy, fmt::format("pod {} is being deleted", name_of_pod(*ending))};
  }
  if (page.pods.size() > 1 || !page.is_last) {
    return Error{Errc::conflict,
                 fmt::format("node {} has several pods with the label {} in namespace {}, so it "
                             "does not identify the plugin's",
                             node, label.selector(), label.namespace_name)};
  }
  if (page.pods.empty()) {
    return Error{Errc::not_found,
                 fmt::format("node {} has no pod with the label {} in namespace {}", node,
                             label.selector(), label.namespace_name)};
  }
  SeenPod& pod = page.pods.front();
  if (!pod.is_of_daemon_set) {
    return Error{Errc::conflict,
                 fmt::format("pod {} belongs to no DaemonSet, so nothing would create it again",
                             name_of_pod(pod))};
  }
  if (!pod.started_at || now - *pod.started_at < kMinPluginAge) {
    return Error{Errc::busy,
                 fmt::format("pod {} was started less than {} min ago", name_of_pod(pod),
                             kMinPluginAge / std::chrono::minutes(1))};
  }
  return std::move(pod);
}

PluginRestarter::PluginRestarter(std::string node, PluginLabel label, PluginPodsView& pods,
                                 PluginAlertView& daemon, MemoryFile& file,
                                 AgentEnvironment environment)
    : node_(std::move(node)),
      label_(std::move(label)),
      pods_(pods),
      daemon_(daemon),
      file_(file),
      environment_(std::move(environment)) {}

void PluginRestarter::run_round(const protocol::GpuVerdicts* verdicts,
                                const std::set<std::string>& hidden) {
  const auto target = std::exchange(target_, std::nullopt);
  if (verdicts == nullptr) return;
  // A plugin that offered a flapping GPU would get the Node tainted.
  const auto counted = count_flapping_as_bad(*verdicts, file_.memory().flaps);
  std::set<std::string> healthy = healthy_ones(counted, hidden);
  if (healthy.empty()) return;
  const TimePoint now = environment_.now().boot;
  if ((!target && now < due_) || was_restarted_lately(now)) return;
  due_ = now + kRestartCheckInterval;
  if (!target) healthy = fetch_disagreeing(healthy);
  if (healthy.empty()) return;
  if (std::string why = restart_obstacle(counted, hidden); !why.empty()) {
    return decline(std::move(why));
  }
  if (!target) return find_target(std::move(healthy));
  if (std::ranges::includes(healthy, target->uuids)) restart(*target);
}

bool PluginRestarter::was_restarted_lately(TimePoint now) const {
  return !restarts().empty() && now - restarts().back() < kRestartInterval;
}

std::vector<TimePoint> PluginRestarter::restarts_in_window(TimePoint now) const {
  auto recent = restarts();
  std::erase_if(recent, [&](TimePoint at) { return now - at >= kRestartWindow; });
  return recent;
}

// Returns which of the GPUs have the alert. None if the daemon does not answer.
std::set<std::string> PluginRestarter::fetch_disagreeing(const std::set<std::string>& healthy) {
  const auto alerts = daemon_.fetch_plugin_alerts();
  const std::string error = alerts ? "" : alerts.error().text();
  if (!error.empty() && error != daemon_error_) {
    log::warning("{}; until the alerts can be read, the device plugin is not restarted", error);
  }
  daemon_error_ = error;
  std::set<std::string> uuids;
  if (!alerts) {
    if (is_lasting(alerts.error())) due_ = environment_.now().boot + kRefusedInterval;
    return uuids;
  }
  std::ranges::set_intersection(*alerts, healthy, std::inserter(uuids, uuids.end()));
  return uuids;
}

void PluginRestarter::find_target(std::set<std::string> uuids) {
  if (restarts_in_window(environment_.now().boot).size() >= kMaxRestarts) {
    return decline(fmt::format(
        "it was restarted {} times within {} h, and hides {} again; its log may say why: `kubectl "
        "logs --namespace {} --selector {}`",
        kMaxRestarts, kRestartWindow / std::chrono::hours(1), fmt::join(uuids, ", "),
        label_.namespace_name, label_.selector()));
  }
  PodPage page;
  const auto answer = pods_.list(page);
  if (!answer.ok()) return fail(answer);
  failures_ = 0;
  auto pod = choose_plugin_pod(std::move(page), label_, node_, environment_.now().wall);
  if (!pod) return decline(pod.error().text());
  target_ = Target{*std::move(pod), std::move(uuids)};
}

void PluginRestarter::restart(const Target& target) {
  const TimePoint now = environment_.now().boot;
  std::vector<TimePoint> before = restarts();
  restarts() = restarts_in_window(now);
  restarts().push_back(now);
  // Before the request, since the agent may die, or the answer be lost, once it is carried out.
  if (!file_.save()) {
    restarts() = std::move(before);
    return decline("the restart cannot be recorded");
  }
  const auto answer = pods_.remove(target.pod);
  if (answer.ok()) {
    settle();
    log::info("deleted pod {} of node {} to restart the device plugin: the alert {} fires for {}",
              name_of_pod(target.pod), node_, kPluginDisagreesRule, fmt::join(target.uuids, ", "));
  } else if (may_be_carried_out(answer.outcome)) {
    log::warning("pod {} of node {} may have been deleted, to restart the device plugin: {}",
                 name_of_pod(target.pod), node_, answer.message);
  } else {
    restarts() = std::move(before);
    file_.save();
    if (!is_outdated(answer.outcome)) fail(answer);
  }
}

void PluginRestarter::fail(const gpuyard::kube::Answer& answer) {
  ++failures_;
  Duration pause = gpuyard::kube::back_off(failures_, answer.retry_after, environment_.random());
  if (needs_a_person(answer.outcome)) pause = std::max(pause, kRefusedInterval);
  due_ = environment_.now().boot + std::max(pause, kRestartCheckInterval);
  if (answer.message == request_error_) return;
  request_error_ = answer.message;
  log::warning("{}; the device plugin is not restarted", request_error_);
}

// Forgets what was logged, so that the next failure is logged.
void PluginRestarter::settle() {
  failures_ = 0;
  request_error_.clear();
  declined_.clear();
}

void PluginRestarter::decline(std::string why) {
  if (why == declined_) return;
  declined_ = std::move(why);
  log::warning("the device plugin is not restarted: {}", declined_);
}

}  // namespace gpuyard::cli::kube
