#include "cli/kube/reconciler.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "io/kube/back_off.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::Answer;
using gpuyard::kube::Outcome;

// The object was not as it was read: it is read and planned for again, at first without a pause.
bool is_conflict(Outcome outcome) {
  return outcome == Outcome::conflict || outcome == Outcome::already_exists ||
         outcome == Outcome::absent || outcome == Outcome::gone;
}

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

Reconciler::Reconciler(Settings settings, ClusterView& cluster, MemoryFile& file,
                       Environment environment)
    : settings_(std::move(settings)),
      cluster_(cluster),
      file_(file),
      environment_(std::move(environment)),
      memory_(file.load()) {}

void Reconciler::run_round(const DaemonReport& report, bool is_new) {
  const Moment now = environment_.now();
  if (is_silent(report, now.boot) || report.too_old) {
    record_silence(memory_.flaps);
  } else if (is_new && report.verdicts) {
    record_verdicts(memory_.flaps, *report.verdicts, now.boot);
  }
  if (now.boot < next_round_) return;
  bool fresh = false;
  const auto read_once = [&] {
    if (!fresh) fresh = read();
    return fresh;
  };
  if (now.boot >= read_due_ && !read_once()) return;
  auto steps = make_plan(report);
  // A plan on what was read a while ago only says that there is something to do.
  if (!steps.empty()) {
    if (!read_once()) return;
    steps = make_plan(report);
  }
  for (int sent = 0; !steps.empty() && sent < kMaxStepsPerRound; ++sent) {
    if (!send(steps.front())) return;
    steps = make_plan(report);
  }
  failures_ = 0;
  save();
}

std::vector<Step> Reconciler::make_plan(const DaemonReport& report) {
  const Moment now = environment_.now();
  return plan(settings_, desired_state(report, memory_.flaps, now.boot), cluster_.seen(), memory_,
              now);
}

bool Reconciler::read() {
  const Answer answer = cluster_.read();
  if (!answer.ok()) {
    fail(answer);
    return false;
  }
  if (!error_.empty()) log::info("the API server answers again");
  error_.clear();
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

bool Reconciler::send(const Step& step) {
  prepare(memory_, step);
  save();
  const Answer answer = cluster_.send(step);
  if (!answer.ok()) {
    fail(answer);
    return false;
  }
  log::info("{}", step_text(step));
  return true;
}

void Reconciler::fail(const Answer& answer) {
  read_due_ = {};  // a write whose answer is lost may have been carried out
  ++failures_;
  const bool at_once = failures_ == 1 && is_conflict(answer.outcome);
  const Duration pause =
      at_once ? Duration::zero()
              : gpuyard::kube::back_off(failures_, answer.retry_after, environment_.random());
  next_round_ = environment_.now().boot + pause;
  if (at_once || error_ == answer.message) return;
  error_ = answer.message;
  log::warning("{}; the next attempt is in {} s", error_,
               std::chrono::ceil<std::chrono::seconds>(pause).count());
}

void Reconciler::save() {
  const auto saved = file_.save(memory_);
  const std::string error = saved ? "" : saved.error().text();
  if (!error.empty() && error != save_error_) {
    log::warning("{}; what an administrator deletes is made again after a restart", error);
  }
  save_error_ = error;
}

}  // namespace gpuyard::cli::kube
