#include "core/control/setting_change_executor.h"

#include <fmt/format.h>

#include "base/log.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {
namespace {

std::optional<Setting> setting_now(SettingKind kind, const SettingState& seen) {
  return seen.now ? std::optional(Setting{kind, seen.now}) : std::nullopt;
}

Standing standing_of(SettingKind kind, const std::optional<SettingState>& seen) {
  if (!can_be_read(kind)) return Standing::assumed;
  return seen && seen->until_reset ? Standing::pending_reboot : Standing::applied;
}

Outcome outcome_of(Standing standing) {
  if (standing == Standing::assumed) return Outcome::assumed;
  return standing == Standing::pending_reboot ? Outcome::pending_reboot : Outcome::applied;
}

}  // namespace

SettingChangeExecutor::SettingChangeExecutor(ExecutorContext& context, const QueuedChange& order,
                                             SettingKind kind)
    : context_(context),
      pending_(order),
      kind_(kind),
      next_{context.gpu().id, kind, context.boot_id()} {
  if (const Holding* kept = context.holding(kind)) before_ = next_ = *kept;
  change_.kind = kind;
  change_.before = next_.written;
}

void SettingChangeExecutor::begin() {
  const Moment moment{context_.loop().now(), context_.loop().wall()};
  if (auto changed = change_claims(next_, pending_, context_.gpu(), moment); !changed) {
    return fail(std::move(changed).error());
  }
  const bool asked = is_put() || std::holds_alternative<Restore>(pending_.job);
  if (!before_ && !asked && next_.claims.empty()) return context_.over(std::nullopt);
  const bool changed = !(before_ == next_);
  const bool undoes = std::holds_alternative<Expire>(pending_.job) || is_reinstating();
  if (undoes && !changed) return context_.over(std::nullopt);
  if (!must_look()) return is_settling() ? settle({}) : go_on();
  context_.command(Look{kind_}, [this](const Heard& heard) { on_look(heard); });
}

// Returns whether the driver has to be asked for the present value: before it is replaced for the
// first time, and wherever it is uncertain.
bool SettingChangeExecutor::must_look() const {
  if (is_put()) return pending_.dry_run || !is_known() || is_outbid();
  if (is_reinstating() && !next_.baseline) return true;
  if (is_suspending()) return false;
  return can_be_read(kind_) && (is_settling() || next_.standing == Standing::owed);
}

bool SettingChangeExecutor::is_known() const {
  return next_.baseline && next_.standing != Standing::drifted && next_.standing != Standing::owed;
}

// The driver is then not told to write the value, so that only a look tells whether it is possible.
bool SettingChangeExecutor::is_outbid() const {
  return is_put() && *wanted(next_) != std::get<Put>(pending_.job).setting;
}

void SettingChangeExecutor::on_look(const Heard& heard) {
  if (auto error = heard.error()) {
    if (is_put()) return fail(*std::move(error));
    // The claim is gone all the same; the setting is put back when the GPU answers again.
    next_.standing = Standing::owed;
    context_.note(next_);
    context_.settle_later(kind_);
    return is_settling() ? context_.over(std::nullopt) : fail(*std::move(error));
  }
  const SettingState seen = heard.reply.before.value_or(SettingState{});
  if (seen.now) change_.before = setting_now(kind_, seen);
  const bool anew = is_put() || (is_reinstating() && !next_.baseline);
  anew ? plan(seen) : settle(seen);
}

void SettingChangeExecutor::plan(const SettingState& seen) {
  if (is_put()) {
    auto possible = check(std::get<Put>(pending_.job).setting, seen);
    if (!possible) return fail(std::move(possible).error());
  }
  if (is_known() && !pending_.dry_run) return go_on();
  const bool others = next_.standing == Standing::drifted || !next_.baseline ||
                      (seen.now && !is_ours(next_, *seen.now));
  if (others) next_.baseline = setting_now(kind_, seen).value_or(unlocked(kind_));
  if (seen.now) next_.written = setting_now(kind_, seen);
  if (next_.standing == Standing::drifted) next_.standing = Standing::applied;
  go_on();
}

void SettingChangeExecutor::settle(const SettingState& seen) {
  const Reconciled found = reconcile(next_, seen);
  if (found.new_baseline) next_.baseline = found.new_baseline;
  switch (found.finding) {
    case Finding::nothing:
      context_.forget(kind_);
      return end_found(seen, Outcome::restored);
    case Finding::drifted:
      return on_drifted();
    case Finding::in_force:
      next_.written = found.target;
      next_.replaced.reset();
      next_.standing = standing_of(kind_, seen);
      keep_or_forget();
      return end_found(seen, next_.claims.empty() ? Outcome::restored : outcome_of(next_.standing));
    case Finding::to_write:
      break;
  }
  if (seen.now) next_.written = setting_now(kind_, seen);
  write(*found.target, seen.now ? std::vector{*seen.now} : std::vector<SettingValue>());
}

// The setting needs no write. If a write was in progress when its end could no longer be told, it
// has arrived, or was lost: that is told now.
void SettingChangeExecutor::end_found(const SettingState& seen, Outcome outcome) {
  if (!is_settling()) return tell(Outcome::restored);
  if (!before_ || !before_->replaced) return context_.over(std::nullopt);
  change_.before = before_->replaced;
  change_.after = setting_now(kind_, seen);
  tell(outcome);
}

void SettingChangeExecutor::go_on() {
  const auto target =
      is_suspending() ? next_.baseline : (wanted(next_) ? wanted(next_) : next_.baseline);
  change_.after = target;
  if (pending_.dry_run) return tell(Outcome::planned);
  if (!target) {  // never read in this boot, and without a claim now
    if (is_suspending()) return context_.over(std::nullopt);
    context_.forget(kind_);
    return tell(Outcome::restored);
  }
  if (next_.standing == Standing::drifted) return on_drifted();
  const bool theirs = is_outbid();
  const bool there = before_ && before_->written == target && before_->standing != Standing::owed &&
                     before_->standing != Standing::drifted;
  if (there && (theirs || !is_put())) {
    context_.hold(next_, [this, theirs](const Result<void>& kept) {
      if (!kept) return fail(Error(kept.error()));
      tell(theirs ? Outcome::held : Outcome::restored);
    });
    return;
  }
  std::vector<SettingValue> expected;
  for (const auto& ours : {next_.written, next_.replaced}) {
    if (!is_put() && ours && ours->value) expected.push_back(*ours->value);
  }
  write(*target, expected);
}

void SettingChangeExecutor::write(const Setting& target,
                                  const std::vector<SettingValue>& expected) {
  may_drift_ = !expected.empty();
  next_.replaced = next_.written ? next_.written : next_.baseline;
  next_.written = target;
  change_.after = target;
  context_.hold(next_, [this, target, expected](const Result<void>& kept) {
    if (!kept) return fail(Error(kept.error()));
    context_.command(Apply{target, expected}, [this](const Heard& heard) { on_written(heard); });
  });
}

void SettingChangeExecutor::on_written(const Heard& heard) {
  if (heard.reply.before && heard.reply.before->now) {
    change_.before = setting_now(kind_, *heard.reply.before);
  }
  if (heard.error()) return on_failed(heard);
  note_what_was_replaced(heard.reply);
  if (heard.reply.after && heard.reply.after->now) {
    next_.written = change_.after = setting_now(kind_, *heard.reply.after);
  }
  next_.replaced.reset();
  next_.standing = is_suspending() ? Standing::owed : standing_of(kind_, heard.reply.after);
  const bool put_back = next_.claims.empty() || is_suspending();
  keep_or_forget();
  if (put_back || std::holds_alternative<Restore>(pending_.job)) return tell(Outcome::restored);
  tell(is_outbid() ? Outcome::held : outcome_of(next_.standing));
}

// Takes the replaced value as the new baseline if another program wrote it unnoticed.
void SettingChangeExecutor::note_what_was_replaced(const CommandReply& reply) {
  if (!reply.before || !reply.before->now || !is_put()) return;
  const SettingValue& value = *reply.before->now;
  const bool known = before_ && is_ours(*before_, value);
  if (!known && next_.replaced && next_.replaced->value != value) {
    next_.baseline = setting_now(kind_, *reply.before);
  }
}

void SettingChangeExecutor::on_failed(const Heard& heard) {
  Error error = *heard.error();
  const bool other_value =
      may_drift_ && heard.certain && !heard.reply.called && error.code == Errc::conflict;
  if (other_value) return on_drifted();
  const bool as_it_was = is_put() && heard.certain;
  if (as_it_was && before_) {
    context_.note(*before_);
  } else if (as_it_was) {
    context_.forget(kind_);
  } else {
    // A claim that could not be written is dropped; one that was given up stays given up.
    if (is_put()) next_.claims = before_ ? before_->claims : std::vector<Claim>();
    next_.standing = Standing::owed;
    context_.note(next_);
    context_.settle_later(kind_);
  }
  fail(std::move(error));
}

void SettingChangeExecutor::on_drifted() {
  log::warning("GPU {}: the {} drifted from the value set by gpuyard ({}); leaving it alone",
               context_.gpu().index, words_of(kind_),
               before_ && before_->written ? text_of(*before_->written) : "unknown");
  const bool told_before = before_ && before_->standing == Standing::drifted;
  next_.standing = Standing::drifted;
  next_.replaced.reset();
  if (before_) next_.written = before_->written;
  keep_or_forget();
  change_.after = change_.before;
  if (is_settling() && told_before) return context_.over(std::nullopt);
  tell(Outcome::drifted);
}

void SettingChangeExecutor::keep_or_forget() {
  if (next_.claims.empty()) return context_.forget(kind_);
  const Holding* kept = context_.holding(kind_);
  // The disk has the write already, and the next start would come to the same result.
  if (kept == nullptr || !(*kept == next_)) context_.note(next_, When::soon);
}

void SettingChangeExecutor::fail(Error error) {
  change_.after.reset();
  change_.error = std::move(error);
  tell(Outcome::failed);
}

void SettingChangeExecutor::tell(Outcome outcome) {
  change_.outcome = outcome;
  if (outcome != Outcome::failed) {
    if (const Claim* claim = claim_in_force(next_)) {
      change_.owner = claim->owner;
      change_.until = claim->until_wall;
    }
  }
  context_.over(std::move(change_));
}

}  // namespace gpuyard::control
