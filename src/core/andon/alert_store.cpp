#include "core/andon/alert_store.h"

#include <algorithm>

#include "base/log.h"

namespace gpuyard::andon {

AlertStore::AlertStore(Loop& loop, AlertStorage& storage, AlertNotifier& notifier,
                       const RuleEngine& engine, const SilenceTable& silences)
    : loop_(loop), storage_(storage), notifier_(notifier), engine_(engine), silences_(silences) {}

void AlertStore::load(const std::function<void(const SavedAlerts&)>& on_loaded) {
  const bool submitted = storage_.load(lifetime_.guard(
      [this, on_loaded](const Result<SavedAlerts>& saved) { this->on_loaded(saved, on_loaded); }));
  if (!submitted) load_timer_ = loop_.call_after(kLoadRetryDelay, [=, this] { load(on_loaded); });
}

void AlertStore::on_loaded(const Result<SavedAlerts>& saved,
                           const std::function<void(const SavedAlerts&)>& on_loaded) {
  if (!saved) {
    error_ = saved.error();
    load_failed_ = true;
    load_timer_ = loop_.call_after(kLoadRetryDelay, [=, this] { load(on_loaded); });
    return;
  }
  error_.reset();
  loaded_ = true;
  for (const OutboxMessage& one : saved->messages) {
    outbox_.emplace(one.id, one);
    next_order_ = std::max(next_order_, one.order + 1);
  }
  on_loaded(*saved);
  for (const OutboxMessage& one : saved->messages) notifier_.send(one);
  if (needs_full_save_) flush();
}

void AlertStore::start_without_saved_state(std::uint64_t first_order) {
  if (!error_) error_ = Error{Errc::timed_out, "the disk does not respond"};
  log::error("continuing without the stored alerts: {}", error_->text());
  needs_full_save_ = true;
  next_order_ = first_order;
}

void AlertStore::stage(Alert alert) {
  if (alert.state == AlertState::resolved) {
    if (unsaved_resolved_.size() == kMaxUnsavedResolved)
      unsaved_resolved_.erase(unsaved_resolved_.begin());
    unsaved_resolved_.insert_or_assign(alert.number, alert);
  }
  transaction_.alerts.push_back(std::move(alert));
}

void AlertStore::stage_messages(const Alert& alert, const std::vector<std::string>& sinks) {
  for (const std::string& sink : sinks) {
    OutboxMessage message = notifier_.make_message(alert, sink);
    message.order = next_order_++;
    transaction_.messages.push_back(std::move(message));
  }
}

void AlertStore::mark_delivered(const std::string& message_id) {
  if (outbox_.erase(message_id) == 0) return;
  transaction_.delivered.push_back(message_id);
  flush();
}

AlertTransaction AlertStore::full_transaction() const {
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
void AlertStore::flush(OnSaved on_saved, const Requester& requester) {
  const auto pending = std::make_shared<PendingSave>();
  pending->transaction = std::exchange(transaction_, {});
  pending->transaction.requester = requester;
  pending->messages = pending->transaction.messages;
  pending->on_saved = std::move(on_saved);
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

void AlertStore::save(const PendingSavePtr& pending) {
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
    record_error({Errc::timed_out, "the disk does not respond"});
    send_messages(*pending);
  });
}

void AlertStore::on_saved(const PendingSavePtr& pending, const Result<void>& result) {
  if (result) {
    error_.reset();
    for (const Alert& alert : pending->transaction.alerts) {
      if (alert.state == AlertState::resolved) unsaved_resolved_.erase(alert.number);
    }
  } else {
    record_error(result.error());
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

void AlertStore::send_messages(PendingSave& pending) {
  if (std::exchange(pending.sent, true)) return;
  for (const OutboxMessage& one : pending.messages) notifier_.send(one);
}

void AlertStore::record_error(const Error& why) {
  if (!error_) log::error("alerts cannot be stored on disk: {}", why.text());
  error_ = why;
}

const Alert* AlertStore::find_unsaved_resolved(std::uint64_t number) const {
  const auto found = unsaved_resolved_.find(number);
  return found == unsaved_resolved_.end() ? nullptr : &found->second;
}

}  // namespace gpuyard::andon
