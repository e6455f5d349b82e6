#include "core/control/setting_change_executor.h"

#include <fmt/format.h>

#include "base/log.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {
namespace {

std::optional<Setting> current_setting(SettingKind kind, const SettingState& seen) {
  return seen.now ? std::optional(Setting{kind, seen.now}) : std::nullopt;
}

SettingStatus status_of(SettingKind kind, const std::optional<SettingState>& seen) {
  if (!can_be_read(kind)) return SettingStatus::assumed;
  return seen && seen->until_reset ? SettingStatus::pending_reboot : SettingStatus::applied;
}

ChangeOutcome outcome_of(SettingStatus standing) {
  if (standing == SettingStatus::assumed) return ChangeOutcome::assumed;
  return standing == SettingStatus::pending_reboot ? ChangeOutcome::pending_reboot
                                                   : ChangeOutcome::applied;
}

}  // namespace

SettingChangeExecutor::SettingChangeExecutor(ExecutorContext& context, const QueuedChange& order,
                                             SettingKind kind)
    : context_(context),
      change_(order),
      kind_(kind),
      next_{context.gpu().id, kind, context.boot_id()} {
  if (const ManagedSetting* kept = context.managed_setting(kind)) before_ = next_ = *kept;
  result_.kind = kind;
  result_.before = next_.written;
}

void SettingChangeExecutor::start() {
  const Moment moment{context_.loop().now(), context_.loop().wall()};
  if (auto changed = change_claims(next_, change_, context_.gpu(), moment); !changed) {
    return fail(std::move(changed).error());
  }
  const bool asked = is_set_value() || std::holds_alternative<Restore>(change_.task);
  if (!before_ && !asked && next_.claims.empty()) return context_.finish(std::nullopt);
  const bool changed = !(before_ == next_);
  const bool undoes = std::holds_alternative<Expire>(change_.task) || is_rolling_back();
  if (undoes && !changed) return context_.finish(std::nullopt);
  if (!needs_read()) return is_reconciling() ? reconcile_setting({}) : apply_target();
  context_.send_command(ReadSetting{kind_},
                        [this](const CommandCompletion& heard) { on_value_read(heard); });
}

// Returns whether the driver has to be asked for the present value: before it is replaced for the
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

// The driver is then not told to write the value, so that only a look tells whether it is possible.
bool SettingChangeExecutor::is_outbid() const {
  return is_set_value() && *effective_setting(next_) != std::get<SetValue>(change_.task).setting;
}

void SettingChangeExecutor::on_value_read(const CommandCompletion& heard) {
  if (auto error = heard.error()) {
    if (is_set_value()) return fail(*std::move(error));
    // The claim is gone all the same; the setting is put back when the GPU answers again.
    next_.status = SettingStatus::owed;
    context_.record(next_);
    context_.reconcile_later(kind_);
    return is_reconciling() ? context_.finish(std::nullopt) : fail(*std::move(error));
  }
  const SettingState seen = heard.reply.before.value_or(SettingState{});
  if (seen.now) result_.before = current_setting(kind_, seen);
  const bool anew = is_set_value() || (is_rolling_back() && !next_.baseline);
  anew ? prepare_write(seen) : reconcile_setting(seen);
}

void SettingChangeExecutor::prepare_write(const SettingState& seen) {
  if (is_set_value()) {
    auto possible = check_setting(std::get<SetValue>(change_.task).setting, seen);
    if (!possible) return fail(std::move(possible).error());
  }
  if (is_value_known() && !change_.dry_run) return apply_target();
  const bool others = next_.status == SettingStatus::drifted || !next_.baseline ||
                      (seen.now && !is_own_value(next_, *seen.now));
  if (others) next_.baseline = current_setting(kind_, seen).value_or(unlocked(kind_));
  if (seen.now) next_.written = current_setting(kind_, seen);
  if (next_.status == SettingStatus::drifted) next_.status = SettingStatus::applied;
  apply_target();
}

void SettingChangeExecutor::reconcile_setting(const SettingState& seen) {
  const Reconciliation found = reconcile(next_, seen);
  if (found.new_baseline) next_.baseline = found.new_baseline;
  switch (found.result) {
    case ReconcileResult::nothing:
      context_.remove(kind_);
      return finish_without_write(seen, ChangeOutcome::restored);
    case ReconcileResult::drifted:
      return on_drifted();
    case ReconcileResult::in_force:
      next_.written = found.target;
      next_.replaced.reset();
      next_.status = status_of(kind_, seen);
      record_or_remove();
      return finish_without_write(
          seen, next_.claims.empty() ? ChangeOutcome::restored : outcome_of(next_.status));
    case ReconcileResult::to_write:
      break;
  }
  if (seen.now) next_.written = current_setting(kind_, seen);
  write(*found.target, seen.now ? std::vector{*seen.now} : std::vector<SettingValue>());
}

// The setting needs no write. If a write was in progress when its end could no longer be told, it
// has arrived, or was lost: that is told now.
void SettingChangeExecutor::finish_without_write(const SettingState& seen, ChangeOutcome outcome) {
  if (!is_reconciling()) return finish(ChangeOutcome::restored);
  if (!before_ || !before_->replaced) return context_.finish(std::nullopt);
  result_.before = before_->replaced;
  result_.after = current_setting(kind_, seen);
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
    context_.remove(kind_);
    return finish(ChangeOutcome::restored);
  }
  if (next_.status == SettingStatus::drifted) return on_drifted();
  const bool theirs = is_outbid();
  const bool there = before_ && before_->written == target &&
                     before_->status != SettingStatus::owed &&
                     before_->status != SettingStatus::drifted;
  if (there && (theirs || !is_set_value())) {
    context_.persist(next_, [this, theirs](const Result<void>& kept) {
      if (!kept) return fail(Error(kept.error()));
      finish(theirs ? ChangeOutcome::held : ChangeOutcome::restored);
    });
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
  context_.persist(next_, [this, target, expected](const Result<void>& kept) {
    if (!kept) return fail(Error(kept.error()));
    context_.send_command(Apply{target, expected},
                          [this](const CommandCompletion& heard) { on_written(heard); });
  });
}

void SettingChangeExecutor::on_written(const CommandCompletion& heard) {
  if (heard.reply.before && heard.reply.before->now) {
    result_.before = current_setting(kind_, *heard.reply.before);
  }
  if (heard.error()) return on_write_failed(heard);
  record_replaced_value(heard.reply);
  if (heard.reply.after && heard.reply.after->now) {
    next_.written = result_.after = current_setting(kind_, *heard.reply.after);
  }
  next_.replaced.reset();
  next_.status = is_suspending() ? SettingStatus::owed : status_of(kind_, heard.reply.after);
  const bool put_back = next_.claims.empty() || is_suspending();
  record_or_remove();
  if (put_back || std::holds_alternative<Restore>(change_.task))
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

void SettingChangeExecutor::on_write_failed(const CommandCompletion& heard) {
  Error error = *heard.error();
  const bool other_value =
      can_drift_ && heard.outcome_known && !heard.reply.called && error.code == Errc::conflict;
  if (other_value) return on_drifted();
  const bool as_it_was = is_set_value() && heard.outcome_known;
  if (as_it_was && before_) {
    context_.record(*before_);
  } else if (as_it_was) {
    context_.remove(kind_);
  } else {
    // A claim that could not be written is dropped; one that was given up stays given up.
    if (is_set_value()) next_.claims = before_ ? before_->claims : std::vector<SettingClaim>();
    next_.status = SettingStatus::owed;
    context_.record(next_);
    context_.reconcile_later(kind_);
  }
  fail(std::move(error));
}

void SettingChangeExecutor::on_drifted() {
  log::warning("GPU {}: the {} drifted from the value set by gpuyard ({}); leaving it alone",
               context_.gpu().index, display_name(kind_),
               before_ && before_->written ? text_of(*before_->written) : "unknown");
  const bool told_before = before_ && before_->status == SettingStatus::drifted;
  next_.status = SettingStatus::drifted;
  next_.replaced.reset();
  if (before_) next_.written = before_->written;
  record_or_remove();
  result_.after = result_.before;
  if (is_reconciling() && told_before) return context_.finish(std::nullopt);
  finish(ChangeOutcome::drifted);
}

void SettingChangeExecutor::record_or_remove() {
  if (next_.claims.empty()) return context_.remove(kind_);
  const ManagedSetting* kept = context_.managed_setting(kind_);
  // The disk has the write already, and the next start would come to the same result.
  if (kept == nullptr || !(*kept == next_)) context_.record(next_, CommitTiming::soon);
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
