#include "core/control/operations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::control {

const Operation& OperationLog::add(Operation operation) {
  operation.id = fmt::format("{}-{}", epoch_, ++last_number_);
  operation.result.operation_id = operation.id;
  operation.result.outcome = ChangeOutcome::queued;
  if (operations_.size() == kMaxOperations) operations_.pop_front();
  return operations_.emplace_back(std::move(operation));
}

void OperationLog::start(std::string_view id) {
  if (Operation* operation = find_mutable(id)) operation->state = OperationState::running;
}

void OperationLog::finish(std::string_view id, const ChangeResult& result, TimePoint now) {
  Operation* operation = find_mutable(id);
  if (operation == nullptr) return;
  operation->state =
      result.outcome == ChangeOutcome::failed ? OperationState::failed : OperationState::done;
  operation->took = now - operation->received;
  operation->result = result;
}

const Operation* OperationLog::find(std::string_view id) const {
  // The newest are requested most.
  const auto found = std::find_if(operations_.rbegin(), operations_.rend(),
                                  [&](const Operation& one) { return one.id == id; });
  return found == operations_.rend() ? nullptr : &*found;
}

Operation* OperationLog::find_mutable(std::string_view id) {
  return const_cast<Operation*>(std::as_const(*this).find(id));
}

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

void ChangeCollector::set_timeout(Duration timeout) {
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
  timeout_timer_.reset();
  Changes changes;
  for (Slot& one : slots_) changes.push_back(*std::move(one.result));
  // Posted, because a full queue refuses a change inside the call that submits it.
  loop_.post([self = shared_from_this(), changes = std::move(changes)] {
    if (const OnChanges on_changes = std::exchange(self->on_changes_, nullptr)) on_changes(changes);
  });
}

void ChangeCollector::on_timeout() {
  if (const OnChanges on_changes = std::exchange(on_changes_, nullptr)) {
    on_changes(Error{Errc::timed_out,
                     "the GPU did not respond in time; the command is still in progress, see "
                     "/api/gpu/manage/operations"});
  }
}

}  // namespace gpuyard::control
