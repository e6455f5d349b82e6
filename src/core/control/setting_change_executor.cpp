#include "core/control/setting_change_executor.h"

#include <fmt/format.h>

#include "base/log.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {
namespace {

std::optional<Setting> current_setting(SettingKind kind, const SettingState& state) {
  return state.now ? std::optional(Setting{kind, state.now}) : std::nullopt;
}

SettingStatus status_of(SettingKind kind, const std::optional<SettingState>& state) {
  if (!can_be_read(kind)) return SettingStatus::assumed;
  return state && state->until_reset ? SettingStatus::pending_reboot : SettingStatus::applied;
}

ChangeOutcome outcome_of(SettingStatus status) {
  if (status == SettingStatus::assumed) return ChangeOutcome::assumed;
  return status == SettingStatus::pending_reboot ? ChangeOutcome::pending_reboot
                                                 : ChangeOutcome::applied;
}

}  // namespace

SettingChangeExecutor::SettingChangeExecutor(ExecutorContext& context, const QueuedChange& change,
                                             SettingKind kind)
    : context_(context),
      change_(change),
      kind_(kind),
      next_{context.gpu().id, kind, context.boot_id()} {
  if (const ManagedSetting* managed = context.settings().find(kind)) before_ = next_ = *managed;
  result_.kind = kind;
  result_.before = next_.written;
}

void SettingChangeExecutor::start() {
  const Moment moment{context_.loop().now(), context_.loop().wall()};
  if (auto changed = change_claims(next_, change_, context_.gpu(), moment); !changed) {
    return fail(std::move(changed).error());
  }
  const bool requested = is_set_value() || std::holds_alternative<Restore>(change_.task);
  if (!before_ && !requested && next_.claims.empty()) return context_.finish(std::nullopt);
  const bool changed = !(before_ == next_);
  const bool undoes = std::holds_alternative<Expire>(change_.task) || is_rolling_back();
  if (undoes && !changed) return context_.finish(std::nullopt);
  if (!needs_read()) return is_reconciling() ? reconcile_setting({}) : apply_target();
  context_.send_command(ReadSetting{kind_},
                        [this](const CommandReply& reply) { on_value_read(reply); });
}

// Returns whether the present value has to be read from the driver: before it is replaced for the
// first time, and wherever it is uncertain.
bool SettingChangeExecutor::needs_read() const {
  if (is_set_value()) return change_.dry_run || !is_value_known() || is_outbid();
  if (is_rolling_back() && !next_.baseline) return true;
  if (is_suspending()) return false;
  return can_be_read(kind_) && (is_reconciling() || next_.status == SettingStatus::owed);
}

bool SettingChangeExecutor::is_value_known() const {
  return next_.baseline && next_.status != SettingStatus::drifted &&
         next_.status != SettingStatus::owed;
}

// The value is then not written, so that only a read shows whether it is possible.
bool SettingChangeExecutor::is_outbid() const {
  return is_set_value() && *effective_setting(next_) != std::get<SetValue>(change_.task).setting;
}

void SettingChangeExecutor::on_value_read(const CommandReply& reply) {
  if (auto error = reply.failure) {
    if (is_set_value()) return fail(*std::move(error));
    // The claim is gone all the same; the setting is restored when the GPU answers again.
    next_.status = SettingStatus::owed;
    context_.settings().record(next_);
    context_.reconcile_later(kind_);
    return is_reconciling() ? context_.finish(std::nullopt) : fail(*std::move(error));
  }
  const SettingState state = reply.before.value_or(SettingState{});
  if (state.now) result_.before = current_setting(kind_, state);
  const bool prepares_write = is_set_value() || (is_rolling_back() && !next_.baseline);
  prepares_write ? prepare_write(state) : reconcile_setting(state);
}

void SettingChangeExecutor::prepare_write(const SettingState& state) {
  if (is_set_value()) {
    auto possible = check_setting(std::get<SetValue>(change_.task).setting, state);
    if (!possible) return fail(std::move(possible).error());
  }
  if (is_value_known() && !change_.dry_run) return apply_target();
  const bool changed_by_others = next_.status == SettingStatus::drifted || !next_.baseline ||
                                 (state.now && !is_own_value(next_, *state.now));
  if (changed_by_others) next_.baseline = current_setting(kind_, state).value_or(unlocked(kind_));
  if (state.now) next_.written = current_setting(kind_, state);
  if (next_.status == SettingStatus::drifted) next_.status = SettingStatus::applied;
  apply_target();
}

void SettingChangeExecutor::reconcile_setting(const SettingState& state) {
  const Reconciliation reconciliation = reconcile(next_, state);
  if (reconciliation.new_baseline) next_.baseline = reconciliation.new_baseline;
  switch (reconciliation.result) {
    case ReconcileResult::nothing:
      context_.settings().remove(kind_);
      return finish_without_write(state, ChangeOutcome::restored);
    case ReconcileResult::drifted:
      return on_drifted();
    case ReconcileResult::in_force:
      next_.written = reconciliation.target;
      next_.replaced.reset();
      next_.status = status_of(kind_, state);
      record_or_remove();
      return finish_without_write(
          state, next_.claims.empty() ? ChangeOutcome::restored : outcome_of(next_.status));
    case ReconcileResult::to_write:
      break;
  }
  if (state.now) next_.written = current_setting(kind_, state);
  write(*reconciliation.target, state.now ? std::vector{*state.now} : std::vector<SettingValue>());
}

// The setting needs no write. If a write was in progress when its end could no longer be observed,
// it has arrived, or was lost: that is known now.
void SettingChangeExecutor::finish_without_write(const SettingState& state, ChangeOutcome outcome) {
  if (!is_reconciling()) return finish(ChangeOutcome::restored);
  if (!before_ || !before_->replaced) return context_.finish(std::nullopt);
  result_.before = before_->replaced;
  result_.after = current_setting(kind_, state);
  finish(outcome);
}

void SettingChangeExecutor::apply_target() {
  const auto target = is_suspending()
                          ? next_.baseline
                          : (effective_setting(next_) ? effective_setting(next_) : next_.baseline);
  result_.after = target;
  if (change_.dry_run) return finish(ChangeOutcome::planned);
  if (!target) {  // never read in this boot, and without a claim now
    if (is_suspending()) return context_.finish(std::nullopt);
    context_.settings().remove(kind_);
    return finish(ChangeOutcome::restored);
  }
  if (next_.status == SettingStatus::drifted) return on_drifted();
  const bool outbid = is_outbid();
  const bool already_written = before_ && before_->written == target &&
                               before_->status != SettingStatus::owed &&
                               before_->status != SettingStatus::drifted;
  if (already_written && (outbid || !is_set_value())) {
    context_.settings().persist(next_,
                                lifetime_.guard([this, outbid](const Result<void>& persisted) {
                                  if (!persisted) return fail(Error(persisted.error()));
                                  finish(outbid ? ChangeOutcome::held : ChangeOutcome::restored);
                                }));
    return;
  }
  std::vector<SettingValue> expected;
  for (const auto& ours : {next_.written, next_.replaced}) {
    if (!is_set_value() && ours && ours->value) expected.push_back(*ours->value);
  }
  write(*target, expected);
}

void SettingChangeExecutor::write(const Setting& target,
                                  const std::vector<SettingValue>& expected) {
  can_drift_ = !expected.empty();
  next_.replaced = next_.written ? next_.written : next_.baseline;
  next_.written = target;
  result_.after = target;
  context_.settings().persist(
      next_, lifetime_.guard([this, target, expected](const Result<void>& persisted) {
        if (!persisted) {
          if (is_reconciling()) context_.reconcile_later(kind_);
          return fail(Error(persisted.error()));
        }
        context_.send_command(Apply{target, expected},
                              [this](const CommandReply& reply) { on_written(reply); });
      }));
}

void SettingChangeExecutor::on_written(const CommandReply& reply) {
  if (reply.before && reply.before->now) {
    result_.before = current_setting(kind_, *reply.before);
  }
  if (reply.failure) return on_write_failed(reply);
  record_replaced_value(reply);
  if (reply.after && reply.after->now) {
    next_.written = result_.after = current_setting(kind_, *reply.after);
  }
  next_.replaced.reset();
  next_.status = is_suspending() ? SettingStatus::owed : status_of(kind_, reply.after);
  const bool restored = next_.claims.empty() || is_suspending();
  record_or_remove();
  if (restored || std::holds_alternative<Restore>(change_.task))
    return finish(ChangeOutcome::restored);
  finish(is_outbid() ? ChangeOutcome::held : outcome_of(next_.status));
}

// Takes the replaced value as the new baseline if another program wrote it unnoticed.
void SettingChangeExecutor::record_replaced_value(const CommandReply& reply) {
  if (!reply.before || !reply.before->now || !is_set_value()) return;
  const SettingValue& value = *reply.before->now;
  const bool known = before_ && is_own_value(*before_, value);
  if (!known && next_.replaced && next_.replaced->value != value) {
    next_.baseline = current_setting(kind_, *reply.before);
  }
}

void SettingChangeExecutor::on_write_failed(const CommandReply& reply) {
  Error error = *reply.failure;
  const bool other_value =
      can_drift_ && reply.outcome_known && !reply.called && error.code == Errc::conflict;
  if (other_value) return on_drifted();
  const bool unchanged = is_set_value() && reply.outcome_known;
  if (unchanged && before_) {
    context_.settings().record(*before_);
  } else if (unchanged) {
    context_.settings().remove(kind_);
  } else {
    // A claim that could not be written is dropped; one that its owner dropped stays dropped.
    if (is_set_value()) next_.claims = before_ ? before_->claims : std::vector<SettingClaim>();
    next_.status = SettingStatus::owed;
    context_.settings().record(next_);
    context_.reconcile_later(kind_);
  }
  fail(std::move(error));
}

void SettingChangeExecutor::on_drifted() {
  log::warning("GPU {}: the {} drifted from the value set by gpuyard ({}); leaving it alone",
               context_.gpu().index, display_name(kind_),
               before_ && before_->written ? text_of(*before_->written) : "unknown");
  const bool drifted_before = before_ && before_->status == SettingStatus::drifted;
  next_.status = SettingStatus::drifted;
  next_.replaced.reset();
  if (before_) next_.written = before_->written;
  record_or_remove();
  result_.after = result_.before;
  if (is_reconciling() && drifted_before) return context_.finish(std::nullopt);
  finish(ChangeOutcome::drifted);
}

void SettingChangeExecutor::record_or_remove() {
  if (next_.claims.empty()) return context_.settings().remove(kind_);
  const ManagedSetting* managed = context_.settings().find(kind_);
  // The disk has the write already, and the next start would come to the same result.
  if (managed == nullptr || !(*managed == next_))
    context_.settings().record(next_, CommitTiming::soon);
}

void SettingChangeExecutor::fail(Error error) {
  result_.after.reset();
  result_.error = std::move(error);
  finish(ChangeOutcome::failed);
}

void SettingChangeExecutor::finish(ChangeOutcome outcome) {
  result_.outcome = outcome;
  if (outcome != ChangeOutcome::failed) {
    if (const SettingClaim* claim = effective_claim(next_)) {
      result_.owner = claim->owner;
      result_.until = claim->until_wall;
    }
  }
  context_.finish(std::move(result_));
}

}  // namespace gpuyard::control
