#include "cli/kube/reconciler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "io/kube/back_off.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Answer;
using gpuyard::kube::Outcome;

std::string text_of(const WriteCondition& step) {
  return fmt::format("wrote the condition {}: {}: {}", step.type, step.text.reason,
                     step.text.message);
}
std::string text_of(const CreateRule& step) {
  const DeviceRule& rule = step.rule;
  return fmt::format("created {}: {} of {} is tainted {}={}:{}", rule.name,
                     rule.device.value_or(""), rule.driver.value_or(""), rule.key, rule.value,
                     rule.effect);
}
std::string text_of(const DeleteRule& step) {
  return "deleted " + step.name;
}
std::string text_of(const PatchTaints& step) {
  return step.has_own ? fmt::format("tainted the node: {}", step.taints.back())
                      : fmt::format("removed the node's taint {}", kNodeTaintKey);
}

}  // namespace

std::string step_text(const Step& step) {
  return std::visit([](const auto& one) { return text_of(one); }, step);
}

Reconciler::Reconciler(Settings settings, ClusterView& cluster, KubeletView& kubelet,
                       MemoryFile& file, AgentEnvironment environment)
    : settings_(std::move(settings)),
      cluster_(cluster),
      kubelet_(kubelet),
      file_(file),
      environment_(std::move(environment)),
      memory_(file.memory()) {}

void Reconciler::run_round(const DaemonReport& report, bool is_new) {
  const Moment now = environment_.now();
  if (is_silent(report, now.boot) || report.too_old) {
    record_silence(memory_.flaps);
  } else if (is_new && report.verdicts) {
    record_verdicts(memory_.flaps, *report.verdicts, now.boot);
  }
  if (now.boot < next_round_) return;
  const Desired desired = desired_state(report, memory_.flaps, now.boot);
  bool fresh = false;
  const auto read_once = [&] {
    if (!fresh) fresh = read();
    return fresh;
  };
  if (now.boot >= read_due_ && !read_once()) return;
  // A plan on what was read a while ago only says that there is something to do.
  if (!make_plan(desired).empty() && (!read_once() || !send_all(desired))) return;
  if (!error_.empty()) log::info("the cluster is up to date again");
  error_.clear();
  failures_ = 0;
  file_.save();
}

std::vector<Step> Reconciler::make_plan(const Desired& desired) {
  ask_kubelet();
  Seen seen = cluster_.seen();
  seen.allocatable = allocatable_;
  return plan(settings_, desired, seen, memory_, environment_.now());
}

// Before each plan, since a round in which the API server is slow may last longer than the answer
// is good for.
void Reconciler::ask_kubelet() {
  if (environment_.now().boot < kubelet_due_) return;
  allocatable_ = kubelet_.fetch_allocatable();
  kubelet_due_ = environment_.now().boot + kKubeletInterval;
}

// Sends one step after the other, and plans anew after each. A step that the server rejects holds
// up no other. Returns false if one failed, or if the round's time ended before the last.
bool Reconciler::send_all(const Desired& desired) {
  const TimePoint begin = environment_.now().boot;
  std::set<std::string> sent;  // in this round, as step_text() has them
  std::optional<Answer> rejection;
  while (true) {
    const auto steps = make_plan(desired);
    const auto next = std::ranges::find_if(
        steps, [&](const Step& step) { return !sent.contains(step_text(step)); });
    if (next == steps.end()) {
      if (steps.empty()) return true;
      fail(rejection.value_or(Answer{
          .outcome = Outcome::malformed,
          .message = "the API server did not keep what was written: " + step_text(steps.front())}));
      return false;
    }
    if (!sent.empty() && environment_.now().boot - begin >= kMaxRound) {
      if (rejection) fail(*rejection);
      return false;
    }
    prepare(memory_, *next);
    file_.save();
    sent.insert(step_text(*next));
    const Answer answer = cluster_.send(*next);
    if (answer.ok()) {
      log::info("{}", step_text(*next));
    } else if (answer.outcome == Outcome::forbidden || answer.outcome == Outcome::rejected) {
      if (!rejection) rejection = answer;
    } else {
      fail(answer);
      return false;
    }
  }
}

bool Reconciler::read() {
  const Answer answer = cluster_.read();
  if (!answer.ok()) {
    fail(answer);
    return false;
  }
  kubelet_due_ = {};  // so that nothing is written on what it said a while ago either
  const bool missing = !cluster_.seen().node;
  if (missing && !missing_node_logged_) {
    log::warning("the cluster has no node {}", settings_.node);
  }
  missing_node_logged_ = missing;
  // Where there is no node yet, it may be made soon.
  const Duration interval = missing ? gpuyard::kube::kMaxBackOff : kReadInterval;
  read_due_ = environment_.now().boot +
              std::chrono::duration_cast<Duration>(interval * (0.9 + 0.2 * environment_.random()));
  return true;
}

void Reconciler::fail(const Answer& answer) {
  read_due_ = {};  // a write whose answer is lost may have been carried out
  ++failures_;
  const Duration pause =
      gpuyard::kube::back_off(failures_, answer.retry_after, environment_.random());
  next_round_ = environment_.now().boot + pause;
  // Others write to a Node as well, so one conflict is nothing to report.
  const bool is_usual = failures_ == 1 && answer.outcome == Outcome::conflict;
  if (is_usual || error_ == answer.message) return;
  error_ = answer.message;
  log::warning("{}; the next attempt is in {} s", error_,
               std::chrono::ceil<std::chrono::seconds>(pause).count());
}

}  // namespace gpuyard::cli::kube
