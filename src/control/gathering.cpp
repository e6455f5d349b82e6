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
    return;
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

void Gathering::roll_back() {
  const auto bad = std::ranges::find(places_, Outcome::failed,
                                     [](const Place& one) { return one.change->outcome; });
  const Error why = bad->change->error.value_or(Error{});
  for (Place& one : places_) {
    if (worked(*one.change)) ++missing_;
  }
  for (Place& one : places_) {
    Change& change = *one.change;
    if (!worked(change)) continue;
    const Change done = change;
    change.outcome = Outcome::rolled_back;
    change.error = Error{why.code, fmt::format("rolled back, because GPU {} failed",
                                               bad->change->index.value_or(0))};
    change.after = change.before;
    change.owner.reset();
    change.until.reset();
    take_back_(done, {*done.kind, one.claims_before}, [self = shared_from_this()] {
      if (--self->missing_ == 0) self->tell();
    });
  }
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
