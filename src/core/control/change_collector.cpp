#include "core/control/change_collector.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace gpuyard::control {
namespace {

bool has_succeeded(const ChangeResult& result) {
  return result.outcome != ChangeOutcome::failed && result.outcome != ChangeOutcome::planned;
}

}  // namespace

ChangeCollector::ChangeCollector(Loop& loop, std::size_t changes, Rollback rollback,
                                 OnChanges on_changes)
    : loop_(loop),
      slots_(changes),
      rollback_(std::move(rollback)),
      on_changes_(std::move(on_changes)),
      missing_(changes) {}

std::function<void(const ChangeResult&, std::vector<SettingClaim>)>
ChangeCollector::result_callback(std::size_t index) {
  return [self = shared_from_this(), index](const ChangeResult& result,
                                            std::vector<SettingClaim> before) {
    self->on_change_done(index, result, std::move(before));
  };
}

void ChangeCollector::begin_wait(Duration timeout) {
  submitting_ = false;
  // Weak: the changes in progress own the collector, and a timer must not outlive its loop.
  timeout_timer_ = loop_.call_after(timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timeout();
  });
}

void ChangeCollector::on_change_done(std::size_t index, const ChangeResult& result,
                                     std::vector<SettingClaim> before) {
  if (!on_changes_) {
    log::error("Failed to send response to caller: {} took longer than the caller waited",
               result.operation_id);
  }
  slots_[index] = {result, std::move(before)};
  if (--missing_ > 0) return;
  const bool failed = std::ranges::any_of(
      slots_, [](const Slot& one) { return one.result->outcome == ChangeOutcome::failed; });
  const bool some =
      std::ranges::any_of(slots_, [](const Slot& one) { return has_succeeded(*one.result); });
  if (rollback_ && failed && some) return roll_back();
  report_changes();
}

// Runs even if the caller no longer waits: the request was for all or none.
void ChangeCollector::roll_back() {
  missing_ = static_cast<std::size_t>(
      std::ranges::count_if(slots_, [](const Slot& one) { return has_succeeded(*one.result); }));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!has_succeeded(*slots_[i].result)) continue;
    rollback_(*slots_[i].result, slots_[i].claims_before,
              [self = shared_from_this(), i](const ChangeResult& rollback_result) {
                self->on_rolled_back(i, rollback_result);
              });
  }
}

void ChangeCollector::on_rolled_back(std::size_t index, const ChangeResult& rollback_result) {
  ChangeResult& result = *slots_[index].result;
  if (rollback_result.error) {
    result.outcome = ChangeOutcome::failed;
    result.error = Error(*rollback_result.error).in("applied here, and could not be rolled back");
  } else {
    result.outcome = ChangeOutcome::rolled_back;
    result.error = Error{Errc::conflict, "rolled back because it failed on another GPU"};
    result.after = rollback_result.after ? rollback_result.after : result.before;
    result.owner = rollback_result.owner;
    result.until = rollback_result.until;
  }
  if (--missing_ == 0) report_changes();
}

void ChangeCollector::report_changes() {
  // A full queue, for example, refuses a change inside the call that submits it.
  if (submitting_) return loop_.post([self = shared_from_this()] { self->report_changes(); });
  timeout_timer_.reset();
  const OnChanges on_changes = std::exchange(on_changes_, nullptr);
  if (!on_changes) return;
  Changes changes;
  for (Slot& one : slots_) changes.push_back(*std::move(one.result));
  on_changes(changes);
}

void ChangeCollector::on_timeout() {
  if (const OnChanges on_changes = std::exchange(on_changes_, nullptr)) {
    on_changes(Error{Errc::timed_out,
                     "the GPU did not respond in time; the command is still in progress, see "
                     "/api/gpu/manage/operations"});
  }
}

}  // namespace gpuyard::control
