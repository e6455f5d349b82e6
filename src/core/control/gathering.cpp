#include "control/gathering.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace gpuyard::control {
namespace {

bool worked(const Change& change) {
  return change.outcome != Outcome::failed && change.outcome != Outcome::planned;
}

}  // namespace

Gathering::Gathering(Loop& loop, std::size_t changes, TakeBack take_back, Heard heard)
    : loop_(loop),
      places_(changes),
      take_back_(std::move(take_back)),
      heard_(std::move(heard)),
      missing_(changes) {}

std::function<void(const Change&, std::vector<Claim>)> Gathering::place(std::size_t index) {
  return [self = shared_from_this(), index](const Change& change, std::vector<Claim> before) {
    self->on_over(index, change, std::move(before));
  };
}

void Gathering::wait(Duration patience) {
  // Not shared: who still works for it keeps it, and a timer must not outlive the loop it is of.
  patience_ = loop_.call_after(patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->give_up();
  });
}

void Gathering::on_over(std::size_t index, const Change& change, std::vector<Claim> before) {
  if (!heard_) {
    log::error("Failed to send response to caller: {} took longer than he waited",
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

// Also when nobody waits for the answer any more: all or none was what was asked for.
void Gathering::roll_back() {
  missing_ = static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const Place& one) { return worked(*one.change); }));
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!worked(*places_[i].change)) continue;
    take_back_(
        *places_[i].change, places_[i].claims_before,
        [self = shared_from_this(), i](const Change& back) { self->on_taken_back(i, back); });
  }
}

void Gathering::on_taken_back(std::size_t index, const Change& back) {
  Change& change = *places_[index].change;
  if (back.error) {
    change.outcome = Outcome::failed;
    change.error = Error(*back.error).in("it worked here, and could not be rolled back");
  } else {
    change.outcome = Outcome::rolled_back;
    change.error = Error{Errc::conflict, "rolled back, because it failed on another GPU"};
    change.after = back.after ? back.after : change.before;
    change.owner = back.owner;
    change.until = back.until;
  }
  if (--missing_ == 0) tell();
}

void Gathering::tell() {
  patience_.reset();
  Changes changes;
  for (Place& one : places_) changes.push_back(*std::move(one.change));
  // Not inside the call that told us: a refusal by a full queue comes at once.
  loop_.post([self = shared_from_this(), changes = std::move(changes)] {
    if (const Heard heard = std::exchange(self->heard_, nullptr)) heard(changes);
  });
}

void Gathering::give_up() {
  if (const Heard heard = std::exchange(heard_, nullptr)) {
    heard(Error{Errc::timed_out,
                "the GPU has not answered in time; the command is still under way: see "
                "/api/gpu/manage/operations"});
  }
}

}  // namespace gpuyard::control
