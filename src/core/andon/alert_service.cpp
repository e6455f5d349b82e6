#include "core/andon/alert_service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "core/andon/alert.h"
#include "core/andon/alert_severity.h"
#include "core/andon/alert_storage.h"
#include "core/andon/silences.h"

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
    : loop_(loop), storage_(storage), notifier_(notifier), engine_(std::move(rules)) {}

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
    enqueue_messages(alert, sinks);
    stage(*engine_.find(alert.number));
  }
}

void AlertService::tick(const Facts& facts) {
  if (!open_) return;
  for (const std::string& id : silences_.expire(loop_.now())) transaction_.unsilenced.push_back(id);
  apply_transitions(engine_.tick(facts, loop_.now(), loop_.wall()));
}

// All that a tick saves and sends is one transaction: after a crash either both are there, or
// neither is and the rule fires again.
void AlertService::apply_transitions(const std::vector<AlertTransition>& changes) {
  for (const AlertTransition& change : changes) {
    const Alert& alert = change.alert;
    if (change.kind == AlertTransition::Kind::resolved) {
      // Sinks that were notified of its begin are notified of its end, even if it is silenced.
      enqueue_messages(alert, alert.notified_sinks);
      stage(alert);
      continue;
    }
    if (change.kind == AlertTransition::Kind::fired) run_command(alert);
    if (const Alert* now = engine_.find(alert.number)) stage(*now);
  }
  notify_firing();
  if (!changes.empty()) update_quarantine();
  for (const AlertTransition& change : changes) {
    const Alert* const now = engine_.find(change.alert.number);
    on_change_(now != nullptr ? *now : change.alert);
  }
  if (!transaction_.empty()) flush();
}

// The command runs once, however many sinks are notified.
void AlertService::run_command(const Alert& alert) {
  const Rule* const rule = find_rule(engine_.rules(), alert.rule);
  const std::string sink = rule != nullptr ? notifier_.command_of(*rule) : "";
  if (sink.empty()) return;
  engine_.record_notified(alert.number, std::nullopt, {sink});
  enqueue_messages(alert, {sink});
}

void AlertService::notify_firing() {
  for (const Alert& alert : engine_.firing_alerts()) {
    const Rule* const rule = find_rule(engine_.rules(), alert.rule);
    if (rule == nullptr || !rule->notify || alert.acknowledged || !needs_notification(alert))
      continue;
    if (silences_.is_silenced(alert)) continue;
    const auto sinks = notifier_.sinks_for(alert, *rule);
    engine_.record_notified(alert.number, alert.severity, sinks);
    enqueue_messages(alert, sinks);
    if (const Alert* now = engine_.find(alert.number)) stage(*now);
  }
}

void AlertService::enqueue_messages(const Alert& alert, const std::vector<std::string>& sinks) {
  for (const std::string& sink : sinks) {
    OutboxMessage message = notifier_.make_message(alert, sink);
    message.order = next_order_++;
    transaction_.messages.push_back(std::move(message));
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
    if (!loaded_) return loop_.post([on_alert] { on_alert(not_loaded_error()); });
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
  stage(alert);
  update_quarantine();
  on_change_(alert);
  if (const Rule* const rule = find_rule(engine_.rules(), alert.rule))
    on_acknowledged_(alert, *rule);
  flush([on_alert, alert](
            const Result<void>& result) { result ? on_alert(alert) : on_alert(result.error()); },
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
  transaction_.silences.push_back(silence);
  flush(
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
    if (!loaded_) return loop_.post([on_done] { on_done(not_loaded_error()); });
    return loop_.post([on_done, name] {
      on_done(Error{Errc::not_found, fmt::format("silence \"{}\" not found", name), "",
                    "gpuyard alerts silences"});
    });
  }
  silences_.remove(*id);
  transaction_.unsilenced.push_back(*id);
  flush(on_done, requester);
}

void AlertService::start() {
  open_timer_ = loop_.call_after(kLoadTimeout, [this] { open_without_saved_state(); });
  load();
}

void AlertService::load() {
  const bool submitted = storage_.load(
      lifetime_.guard([this](Result<andon::SavedAlerts> saved) { on_loaded(std::move(saved)); }));
  if (!submitted) load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
}

void AlertService::on_loaded(Result<andon::SavedAlerts> saved) {
  if (!saved) {
    storage_error_ = saved.error();
    load_failed_ = true;
    load_timer_ = loop_.call_after(kLoadRetryDelay, [this] { load(); });
    return;
  }
  storage_error_.reset();
  loaded_ = true;
  merge(*saved);
  open_timer_.reset();
  open();
  for (const OutboxMessage& one : saved->messages) notifier_.send(one);
  if (needs_full_save_) flush();
}

// An alert that fired meanwhile replaces the saved one of the same rule and GPU.
void AlertService::merge(const andon::SavedAlerts& saved) {
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
    stage(std::move(alert));
  }
  engine_.restore(remaining, saved.last_number, loop_.now());
  for (const Silence& silence : saved.silences) silences_.put(silence, loop_.now(), loop_.wall());
  for (const OutboxMessage& one : saved.messages) {
    outbox_.emplace(one.id, one);
    next_order_ = std::max(next_order_, one.order + 1);
  }
}

void AlertService::open_without_saved_state() {
  if (open_) return;
  if (!storage_error_) storage_error_ = Error{Errc::timed_out, "the disk does not respond"};
  log::error("continuing without the stored alerts: {}", storage_error_->text());
  needs_full_save_ = true;
  // Numbers that no earlier run of the daemon can have given.
  const auto since_1970 = loop_.wall().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
  engine_.restore({}, static_cast<std::uint64_t>(seconds), loop_.now());
  next_order_ = static_cast<std::uint64_t>(seconds);
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

void AlertService::mark_delivered(const std::string& message_id) {
  if (outbox_.erase(message_id) == 0) return;
  transaction_.delivered.push_back(message_id);
  flush();
}

void AlertService::stage(Alert alert) {
  if (alert.state == AlertState::resolved) {
    if (unsaved_resolved_.size() == kMaxUnsavedResolved)
      unsaved_resolved_.erase(unsaved_resolved_.begin());
    unsaved_resolved_.insert_or_assign(alert.number, alert);
  }
  transaction_.alerts.push_back(std::move(alert));
}

AlertTransaction AlertService::full_transaction() const {
  AlertTransaction all;
  all.everything = true;
  all.alerts = engine_.firing_alerts();
  for (const auto& [number, alert] : unsaved_resolved_) all.alerts.push_back(alert);
  all.silences = silences_.all();
  for (const auto& [id, one] : outbox_) all.messages.push_back(one);
  return all;
}

// Messages are sent once they are saved, so that a daemon that dies has sent nothing that it does
// not remember. If the disk fails or does not answer, they are sent without being saved.
void AlertService::flush(OnSaved on_done, const Requester& requester) {
  const auto pending = std::make_shared<PendingSave>();
  pending->transaction = std::exchange(transaction_, {});
  pending->transaction.requester = requester;
  pending->messages = pending->transaction.messages;
  pending->on_saved = std::move(on_done);
  std::erase_if(pending->transaction.messages, [this](const OutboxMessage& one) {
    return outbox_.size() >= kMaxOutboxMessages || !outbox_.emplace(one.id, one).second;
  });
  // Later transactions build on all earlier ones; after a failure everything goes in one.
  if (loaded_ && std::exchange(needs_full_save_, false)) {
    pending->transaction = full_transaction();
    pending->transaction.requester = requester;
  }
  save(pending);
}

void AlertService::save(const PendingSavePtr& pending) {
  const std::uint64_t number = next_save_++;
  const auto on_done = lifetime_.guard([this, pending, number](const Result<void>& result) {
    save_timeouts_.erase(number);
    on_saved(pending, result);
  });
  if (!loaded_ || !storage_.save(pending->transaction, on_done)) {
    const char* const why = loaded_ ? "the disk queue is full" : "the disk could not be read yet";
    return loop_.post([on_done, why] { on_done(Error{Errc::busy, why}); });
  }
  save_timeouts_[number] = loop_.call_after(kSaveTimeout, [this, pending] {
    record_storage_error({Errc::timed_out, "the disk does not respond"});
    send_messages(*pending);
  });
}

void AlertService::send_messages(PendingSave& pending) {
  if (std::exchange(pending.sent, true)) return;
  for (const OutboxMessage& one : pending.messages) notifier_.send(one);
}

void AlertService::record_storage_error(const Error& why) {
  if (!storage_error_) log::error("alerts cannot be stored on disk: {}", why.text());
  storage_error_ = why;
}

void AlertService::on_saved(const PendingSavePtr& pending, const Result<void>& result) {
  if (result) {
    storage_error_.reset();
    for (const Alert& alert : pending->transaction.alerts) {
      if (alert.state == AlertState::resolved) unsaved_resolved_.erase(alert.number);
    }
  } else {
    record_storage_error(result.error());
    needs_full_save_ = true;
    save_timer_ = loop_.call_after(kSaveRetryDelay, [this] { flush(); });
  }
  send_messages(*pending);
  if (!pending->on_saved) return;
  if (result) return pending->on_saved(result);
  pending->on_saved(Error{Errc::unavailable,
                          "active, but not stored, so it would be lost when the daemon restarts: " +
                              result.error().text()});
}

const Alert* AlertService::find(std::uint64_t number) const {
  const auto resolved = unsaved_resolved_.find(number);
  return resolved == unsaved_resolved_.end() ? engine_.find(number) : &resolved->second;
}

}  // namespace gpuyard::andon
