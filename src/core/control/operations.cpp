#include "core/control/operations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::control {

const Operation& Operations::add(Operation operation) {
  operation.id = fmt::format("{}-{}", epoch_, ++last_);
  operation.change.operation = operation.id;
  operation.change.outcome = Outcome::queued;
  if (operations_.size() == kKept) operations_.pop_front();
  return operations_.emplace_back(std::move(operation));
}

void Operations::running(std::string_view id) {
  if (Operation* operation = find_mine(id)) operation->state = OperationState::running;
}

void Operations::over(std::string_view id, const Change& change, TimePoint now) {
  Operation* operation = find_mine(id);
  if (operation == nullptr) return;
  operation->state =
      change.outcome == Outcome::failed ? OperationState::failed : OperationState::done;
  operation->took = now - operation->received;
  operation->change = change;
}

const Operation* Operations::find(std::string_view id) const {
  // The newest are asked for most.
  const auto found = std::find_if(operations_.rbegin(), operations_.rend(),
                                  [&](const Operation& one) { return one.id == id; });
  return found == operations_.rend() ? nullptr : &*found;
}

Operation* Operations::find_mine(std::string_view id) {
  return const_cast<Operation*>(std::as_const(*this).find(id));
}

namespace {

bool worked(const Change& change) {
  return change.outcome != Outcome::failed && change.outcome != Outcome::planned;
}

}  // namespace

ChangeCollector::ChangeCollector(Loop& loop, std::size_t changes, TakeBack take_back, Heard heard)
    : loop_(loop),
      places_(changes),
      take_back_(std::move(take_back)),
      heard_(std::move(heard)),
      missing_(changes) {}

std::function<void(const Change&, std::vector<Claim>)> ChangeCollector::place(std::size_t index) {
  return [self = shared_from_this(), index](const Change& change, std::vector<Claim> before) {
    self->on_over(index, change, std::move(before));
  };
}

void ChangeCollector::wait(Duration patience) {
  // Weak: the changes under way own the collector, and a timer must not outlive its loop.
  patience_ = loop_.call_after(patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->give_up();
  });
}

void ChangeCollector::on_over(std::size_t index, const Change& change, std::vector<Claim> before) {
  if (!heard_) {
    log::error("Failed to send response to caller: {} took longer than the caller waited",
               change.operation);
  }
  places_[index] = {change, std::move(before)};
  if (--missing_ > 0) return;
  const bool failed = std::ranges::any_of(
      places_, [](const Place& one) { return one.change->outcome == Outcome::failed; });
  const bool some =
      std::ranges::any_of(places_, [](const Place& one) { return worked(*one.change); });
  if (take_back_ && failed && some) return roll_back();
  tell();
}

// Runs even if the caller waits no more: the request was for all or none.
void ChangeCollector::roll_back() {
  missing_ = static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const Place& one) { return worked(*one.change); }));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!worked(*places_[i].change)) continue;
    take_back_(
        *places_[i].change, places_[i].claims_before,
        [self = shared_from_this(), i](const Change& back) { self->on_taken_back(i, back); });
  }
}

void ChangeCollector::on_taken_back(std::size_t index, const Change& back) {
  Change& change = *places_[index].change;
  if (back.error) {
    change.outcome = Outcome::failed;
    change.error = Error(*back.error).in("applied here, and could not be rolled back");
  } else {
    change.outcome = Outcome::rolled_back;
    change.error = Error{Errc::conflict, "rolled back because it failed on another GPU"};
    change.after = back.after ? back.after : change.before;
    change.owner = back.owner;
    change.until = back.until;
  }
  if (--missing_ == 0) tell();
}

void ChangeCollector::tell() {
  patience_.reset();
  Changes changes;
  for (Place& one : places_) changes.push_back(*std::move(one.change));
  // Posted, because a full queue refuses a change inside the call that submits it.
  loop_.post([self = shared_from_this(), changes = std::move(changes)] {
    if (const Heard heard = std::exchange(self->heard_, nullptr)) heard(changes);
  });
}

void ChangeCollector::give_up() {
  if (const Heard heard = std::exchange(heard_, nullptr)) {
    heard(Error{Errc::timed_out,
                "the GPU did not respond in time; the command is still in progress, see "
                "/api/gpu/manage/operations"});
  }
}

}  // namespace gpuyard::control
