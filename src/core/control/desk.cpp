#include "control/desk.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

Error terminated(const DeviceInfo& gpu) {
  return {Errc::unavailable, fmt::format("GPU management task for GPU {} terminated", gpu.index)};
}

// A callback of an archive or a reset may come when the turn that waits for it, or the desk, is
// gone.
Archive::Kept Desk::in_this_turn(Archive::Kept then) {
  return [this, then = std::move(then), turn = turns_,
          alive = std::weak_ptr(self_)](const Result<void>& done) {
    if (!alive.expired() && turn_ && turn == turns_) then(done);
  };
}

void Desk::submit(Order order) {
  if (closed_) {
    return refuse(order, {Errc::unavailable, "gpuyard is ending and takes no more commands"});
  }
  const bool undoes = std::holds_alternative<Reinstate>(order.job);
  if (queue_.size() >= kMostWaiting && !undoes) {
    return refuse(order, {Errc::busy, fmt::format("{} commands wait for GPU {} already; ask again "
                                                  "later",
                                                  kMostWaiting, gpu_.index)});
  }
  queue_.push_back(std::move(order));
  go_on();
}

void Desk::refuse(const Order& order, Error why) {
  Change change;
  change.gpu = gpu_.id;
  change.index = gpu_.index;
  change.operation = order.operation;
  change.kind = kind_of(order.job);
  change.error = std::move(why);
  office_.told_over(gpu_, order, change, office_.loop.now());
  if (order.done) order.done(change, {});
}

void Desk::take_own(Job job) {
  const auto same = [&](const Order& one) {
    return one.job.index() == job.index() && kind_of(one.job) == kind_of(job);
  };
  if (!std::holds_alternative<Reinstate>(job) && std::ranges::any_of(queue_, same)) return;
  Order order;
  order.asker = {kOurselves, true, "", office_.loop.now()};
  order.job = std::move(job);
  queue_.push_back(std::move(order));
  go_on();
}

void Desk::drop_lapsed() {
  std::vector<std::pair<Order, Error>> lapsed;
  std::deque<Order> kept;
  for (Order& order : queue_) {
    const auto right = order.right ? order.right(gpu_.id) : Result<void>();
    if (right) {
      kept.push_back(std::move(order));
    } else {
      lapsed.emplace_back(std::move(order), right.error());
    }
  }
  queue_ = std::move(kept);
  // Who hears of it may ask for something else.
  for (const auto& [order, why] : lapsed) refuse(order, why);
}

void Desk::go_on() {
  if (turn_ || queue_.empty() || !office_.may_begin(queue_.front())) return;
  order_ = std::move(queue_.front());
  queue_.pop_front();
  began_ = office_.loop.now();
  const auto kind = kind_of(order_->job);
  const Holding* kept = kind ? holding(*kind) : nullptr;
  claims_before_ = kept != nullptr ? kept->claims : std::vector<Claim>();
  ++turns_;
  turn_ = make_turn(*this, *order_);
  // Not inside the call that brought the order: its answer may come at once.
  begin_soon_ = office_.loop.call_at(began_, [this] { turn_->begin(); });
}

void Desk::over(std::optional<Change> change) {
  const auto turn = std::move(turn_);
  const Order order = *std::exchange(order_, std::nullopt);
  then_ = nullptr;
  // What is told below may begin the next turn.
  const std::vector<Claim> claims_before = std::exchange(claims_before_, {});
  if (change) {
    change->gpu = gpu_.id;
    change->index = gpu_.index;
    change->operation = order.operation;
  }
  office_.told_over(gpu_, order, change, began_);
  if (order.done) order.done(change.value_or(Change{}), claims_before);
  go_on();
}

const Holding* Desk::holding(SettingKind kind) const {
  const auto found = holdings_.find(kind);
  return found == holdings_.end() ? nullptr : &found->second;
}

void Desk::command(Command command, std::function<void(const Heard&)> then) {
  asked_ = {++office_.last_command, gpu_.id, std::move(command), order_->asker.request_id,
            order_->asker.received};
  then_ = std::move(then);
  auto why = obstacle(asked_.command);
  sent_ = !why && office_.hands.command(asked_);
  if (sent_) return;
  if (!why) {
    why = {Errc::unavailable, "the driver-host is away; nothing was changed, ask again"};
  }
  CommandReply refused;
  refused.id = asked_.id;
  refused.failure = CommandFailure{why->code, why->message};
  begin_soon_ = office_.loop.call_at(office_.loop.now(), [this, refused] {
    if (then_ && refused.id == asked_.id) hear({refused});
  });
}

// The right may have ended while the disk was asked. Giving something up needs none.
std::optional<Error> Desk::obstacle(const Command& command) const {
  const bool takes =
      !std::holds_alternative<Look>(command) && !std::holds_alternative<Restore>(order_->job);
  if (!order_->right || !takes) return std::nullopt;
  const auto right = order_->right(gpu_.id);
  return right ? std::nullopt : std::optional(right.error());
}

void Desk::on_reply(const CommandReply& reply) {
  if (then_ && reply.id == asked_.id) hear({reply});
}

void Desk::on_host_down() {
  if (!then_ || !sent_) return;
  CommandReply lost;
  lost.id = asked_.id;
  lost.failure = CommandFailure{Errc::unavailable, terminated(gpu_).message};
  hear({lost, false});
}

void Desk::hear(const Heard& heard) {
  if (const auto then = std::exchange(then_, nullptr)) then(heard);
}

void Desk::hold(const Holding& holding, std::function<void(const Result<void>&)> then) {
  const auto kept = in_this_turn([this, holding, then = std::move(then)](const Result<void>& done) {
    if (!done) {
      return then(Error{Errc::unavailable,
                        "nothing was changed, because it could not be noted down before: " +
                            done.error().message});
    }
    holdings_[holding.kind] = holding;
    then(done);
  });
  Entry entry;
  entry.put = holding;
  if (office_.archive.save(std::move(entry), When::now, kept)) return;
  begin_soon_ = office_.loop.call_at(office_.loop.now(), [kept] {
    kept(Error{Errc::busy, "too much waits for the disk already"});
  });
}

void Desk::note(const Holding& holding, When when) {
  holdings_[holding.kind] = holding;
  keep(holding.kind, when);
}

void Desk::forget(SettingKind kind) {
  if (holdings_.erase(kind) > 0) keep(kind, When::now);
}

void Desk::keep(SettingKind kind, When when) {
  Entry entry;
  if (const Holding* holding = this->holding(kind)) {
    entry.put = *holding;
  } else {
    entry.removed = Holding{gpu_.id, kind};
  }
  const bool taken = office_.archive.save(
      std::move(entry), when, [this, kind, alive = std::weak_ptr(self_)](const Result<void>& done) {
        if (alive.expired() || done) return;
        unkept_.insert(kind);
        keep_later();
      });
  if (taken) return;
  unkept_.insert(kind);
  keep_later();
}

void Desk::keep_later() {
  keep_timer_ = office_.loop.call_after(kTryAgain, [this] {
    for (const SettingKind kind : std::exchange(unkept_, {})) keep(kind, When::now);
  });
}

void Desk::settle_later(SettingKind kind) {
  unsettled_.insert(kind);
  settle_timer_ = office_.loop.call_after(kTryAgain, [this] {
    for (const SettingKind one : std::exchange(unsettled_, {})) take_own(Settle{one});
  });
}

void Desk::on_driver_back() {
  for (const auto& [kind, holding] : holdings_) take_own(Settle{kind});
}

void Desk::suspend() {
  for (const auto& [kind, holding] : holdings_) take_own(Suspend{kind});
}

void Desk::reset(bool dry_run, std::function<void(const Result<void>&)> then) {
  office_.reset(gpu_, dry_run, in_this_turn(std::move(then)));
}

void Desk::abandon() {
  closed_ = true;
  begin_soon_.reset();
  then_ = nullptr;
  turn_ = nullptr;
  if (const auto order = std::exchange(order_, std::nullopt)) refuse(*order, terminated(gpu_));
  for (const Order& order : std::exchange(queue_, {})) refuse(order, terminated(gpu_));
}

}  // namespace gpuyard::control
