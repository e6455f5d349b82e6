#include "core/andon/alert_service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/andon/alert_severity.h"

namespace gpuyard::andon {
namespace {

// The error for an alert or a silence that is not in memory but may be on the disk.
Error not_loaded_error() {
  return {Errc::unavailable, "the stored alerts have not been read yet; try again"};
}

// Whether the alert's level is worse than the one that sinks were notified of last.
bool needs_notification(const Alert& alert) {
  return !alert.notified_severity || level_of(alert.severity) > level_of(*alert.notified_severity);
}

Error queue_full_error() {
  return {Errc::busy, "your share of the disk queue is full; try again in a second"};
}

}  // namespace

AlertService::AlertService(Loop& loop, AlertStorage& storage, AlertNotifier& notifier, Rules rules)
    : loop_(loop),
      storage_(storage),
      notifier_(notifier),
      engine_(std::move(rules)),
      store_(loop, storage, notifier, engine_, silences_) {}

void AlertService::replace(Rules rules) {
  const auto changes = engine_.replace(std::move(rules), loop_.wall());
  if (!open_) return;
  notify_new_sinks();
  apply_transitions(changes);
  update_quarantine();
}

// Notifies the sinks that a rule has gained of alerts that fire already.
void AlertService::notify_new_sinks() {
  for (const Alert& alert : engine_.firing_alerts()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->notify || alert.acknowledged || !alert.notified_severity)
      continue;
    auto sinks = notifier_.sinks_for(alert, *rule);
    std::erase_if(sinks, [&](const std::string& sink) {
      return std::ranges::find(alert.notified_sinks, sink) != alert.notified_sinks.end();
    });
    if (sinks.empty() || silences_.is_silenced(alert)) continue;
    engine_.record_notified(alert.number, alert.severity, sinks);
    store_.stage_messages(alert, sinks);
    store_.stage(*engine_.find(alert.number));
  }
}

void AlertService::tick(const Facts& facts) {
  if (!open_) return;
  for (const std::string& id : silences_.expire(loop_.now())) store_.stage_unsilenced(id);
  apply_transitions(engine_.tick(facts, loop_.now(), loop_.wall()));
}

// All that a tick saves and sends is one transaction: after a crash either both are there, or
// neither is and the rule fires again.
void AlertService::apply_transitions(const std::vector<AlertTransition>& changes) {
  for (const AlertTransition& change : changes) {
    const Alert& alert = change.alert;
    if (change.kind == AlertTransition::Kind::resolved) {
      // Sinks that were notified of its begin are notified of its end, even if it is silenced.
      store_.stage_messages(alert, alert.notified_sinks);
      store_.stage(alert);
      continue;
    }
    if (change.kind == AlertTransition::Kind::fired) run_command(alert);
    if (const Alert* now = engine_.find(alert.number)) store_.stage(*now);
  }
  notify_firing();
  if (!changes.empty()) update_quarantine();
  for (const AlertTransition& change : changes) {
    const Alert* const now = engine_.find(change.alert.number);
    on_change_(now != nullptr ? *now : change.alert);
  }
  if (store_.has_staged()) store_.flush();
}

// The command runs once, however many sinks are notified.
void AlertService::run_command(const Alert& alert) {
  const Rule* const rule = find_rule(engine_.rules(), alert.rule);
  const std::string sink = rule != nullptr ? notifier_.command_of(*rule) : "";
  if (sink.empty()) return;
  engine_.record_notified(alert.number, std::nullopt, {sink});
  store_.stage_messages(alert, {sink});
}

void AlertService::notify_firing() {
  for (const Alert& alert : engine_.firing_alerts()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->notify || alert.acknowledged || !needs_notification(alert))
      continue;
    if (silences_.is_silenced(alert)) continue;
    const auto sinks = notifier_.sinks_for(alert, *rule);
    engine_.record_notified(alert.number, alert.severity, sinks);
    store_.stage_messages(alert, sinks);
    if (const Alert* now = engine_.find(alert.number)) store_.stage(*now);
  }
}

void AlertService::update_quarantine() {
  quarantines_.clear();
  for (const Alert& alert : engine_.firing_alerts()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->quarantine || alert.acknowledged || alert.gpu.empty()) continue;
    quarantines_.try_emplace(
        alert.gpu, Quarantine{alert.rule, alert.number,
                              fmt::format("quarantined by alert {} ({}): {}", alert.number,
                                          alert.rule, alert.message),
                              alert.message, alert.advice});
  }
}

std::optional<Quarantine> AlertService::quarantine(const DeviceId& gpu) const {
  const auto found = quarantines_.find(gpu);
  return found != quarantines_.end() ? std::optional(found->second) : std::nullopt;
}

void AlertService::acknowledge(std::uint64_t number, Acknowledgement by, const OnAlert& on_alert,
                               const Requester& requester) {
  if (engine_.find(number) == nullptr) {
    if (!store_.is_loaded()) return loop_.post([on_alert] { on_alert(not_loaded_error()); });
    const bool was = number != 0 && number <= engine_.last_number();
    const Error error =
        was ? Error{Errc::conflict, fmt::format("alert {} is already resolved", number),
                    "there is nothing to acknowledge"}
            : Error{Errc::not_found, fmt::format("alert {} not found", number), "",
                    "gpuyard alerts"};
    return loop_.post([on_alert, error] { on_alert(error); });
  }
  if (!storage_.has_queue_space(requester))
    return loop_.post([on_alert] { on_alert(queue_full_error()); });
  engine_.acknowledge(number, std::move(by));
  const Alert alert = *engine_.find(number);
  store_.stage(alert);
  update_quarantine();
  on_change_(alert);
  if (const Rule* const rule = find_rule(engine_.rules(), alert.rule))
    on_acknowledged_(alert, *rule);
  store_.flush(
      [on_alert, alert](const Result<void>& result) {
        result ? on_alert(alert) : on_alert(result.error());
      },
      requester);
}

void AlertService::remove_gpu(const DeviceId& gpu, const std::string& why) {
  apply_transitions(engine_.remove_gpu(gpu, why, loop_.wall()));
}

void AlertService::silence(Silence silence, const OnSilence& on_silence,
                           const Requester& requester) {
  const std::size_t max_silences =
      SilenceTable::kMaxSilences - (requester.privileged ? 0 : SilenceTable::kReservedForAdmins);
  if (silences_.size() >= max_silences) {
    const std::string text =
        max_silences < SilenceTable::kMaxSilences
            ? fmt::format("the limit is {} silences, and {} for administrators", max_silences,
                          SilenceTable::kMaxSilences)
            : fmt::format("the limit is {} silences", max_silences);
    return loop_.post([on_silence, text] {
      on_silence(
          Error{.code = Errc::busy,
                .message = text,
                .hint = "gpuyard alerts silences  # to end those that are no longer needed"});
    });
  }
  if (!storage_.has_queue_space(requester))
    return loop_.post([on_silence] { on_silence(queue_full_error()); });
  silences_.put(silence, loop_.now(), loop_.wall());
  store_.stage(silence);
  store_.flush(
      [on_silence, silence = std::move(silence)](const Result<void>& result) {
        result ? on_silence(silence) : on_silence(result.error());
      },
      requester);
}

void AlertService::unsilence(const std::string& name, const OnDone& on_done,
                             const Requester& requester) {
  if (!storage_.has_queue_space(requester))
    return loop_.post([on_done] { on_done(queue_full_error()); });
  const auto id = silences_.find_id(name);
  if (!id) {
    if (!store_.is_loaded()) return loop_.post([on_done] { on_done(not_loaded_error()); });
    return loop_.post([on_done, name] {
      on_done(Error{Errc::not_found, fmt::format("silence \"{}\" not found", name), "",
                    "gpuyard alerts silences"});
    });
  }
  silences_.remove(*id);
  store_.stage_unsilenced(*id);
  store_.flush(on_done, requester);
}

void AlertService::start() {
  open_timer_ = loop_.call_after(kLoadTimeout, [this] { open_without_saved_state(); });
  store_.load([this](const SavedAlerts& saved) { on_loaded(saved); });
}

// An alert that fired meanwhile replaces the saved one of the same rule and GPU.
void AlertService::on_loaded(const SavedAlerts& saved) {
  std::vector<Alert> remaining;
  for (Alert alert : saved.firing) {
    const bool refired = std::ranges::any_of(engine_.firing_alerts(), [&](const Alert& one) {
      return one.rule == alert.rule && one.gpu == alert.gpu;
    });
    if (!refired) {
      remaining.push_back(std::move(alert));
      continue;
    }
    alert.state = AlertState::resolved;
    alert.resolved = loop_.wall();
    alert.end_reason = "stored alerts could not be read, and it was detected again";
    store_.stage(std::move(alert));
  }
  engine_.restore(remaining, saved.last_number, loop_.now());
  for (const Silence& silence : saved.silences) silences_.put(silence, loop_.now(), loop_.wall());
  open_timer_.reset();
  open();
}

void AlertService::open_without_saved_state() {
  if (open_) return;
  // Numbers that no earlier run of the daemon can have given.
  const auto since_1970 = loop_.wall().time_since_epoch();
  const auto first = static_cast<std::uint64_t>(since_1970 / std::chrono::seconds(1));
  store_.start_without_saved_state(first);
  engine_.restore({}, first, loop_.now());
  open();
}

// Called once more if the saved state is read later.
void AlertService::open() {
  open_ = true;
  // While the daemon was down, rules may have gone and sinks have come.
  notify_new_sinks();
  apply_transitions(engine_.replace(engine_.rules(), loop_.wall()));
  update_quarantine();
}

const Alert* AlertService::find(std::uint64_t number) const {
  const Alert* const resolved = store_.find_unsaved_resolved(number);
  return resolved != nullptr ? resolved : engine_.find(number);
}

}  // namespace gpuyard::andon
