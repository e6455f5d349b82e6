#include "core/control/gpu_queue.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

namespace {

// A job that repeats or takes back what was accepted before.
bool puts_back(const QueuedChange& order) {
  return order.asker.ours || std::holds_alternative<Restore>(order.job) ||
         std::holds_alternative<Reinstate>(order.job);
}

}  // namespace

Error terminated(const DeviceInfo& gpu) {
  return {Errc::unavailable, fmt::format("GPU management task for GPU {} terminated", gpu.index)};
}

// Guards a callback of the archive or of a reset, which may come when the plan that waits for it,
// or the queue, is gone.
ControlStorage::Kept GpuQueue::in_this_turn(ControlStorage::Kept then) {
  return here_.guard([this, then = std::move(then), turn = plans_](const Result<void>& done) {
    if (plan_ && turn == plans_) then(done);
  });
}

void GpuQueue::submit(QueuedChange order) {
  if (closed_) {
    return refuse(order,
                  {Errc::unavailable, "gpuyard is shutting down and accepts no more commands"});
  }
  const bool undoes = std::holds_alternative<Reinstate>(order.job);
  if (queue_.size() >= kMostWaiting && !undoes) {
    return refuse(order, {Errc::busy,
                          fmt::format("{} commands are already queued for GPU {}; try again later",
                                      kMostWaiting, gpu_.index)});
  }
  queue_.push_back(std::move(order));
  go_on();
}

void GpuQueue::refuse(const QueuedChange& order, Error why) {
  const Change change{.gpu = gpu_.id,
                      .index = gpu_.index,
                      .operation = order.operation,
                      .kind = kind_of(order.job),
                      .error = std::move(why)};
  environment_.told_over(gpu_, order, change, environment_.loop.now());
  if (order.done) order.done(change, {});
}

void GpuQueue::take_own(Job job) {
  const auto same = [&](const QueuedChange& one) {
    return one.job.index() == job.index() && kind_of(one.job) == kind_of(job);
  };
  if (!std::holds_alternative<Reinstate>(job) && std::ranges::any_of(queue_, same)) return;
  Asker ourselves{kOurselves, true, "", environment_.loop.now()};
  ourselves.ours = true;
  queue_.push_back({std::move(ourselves), std::move(job)});
  go_on();
}

void GpuQueue::drop_lapsed() {
  std::vector<std::pair<QueuedChange, Error>> lapsed;
  std::deque<QueuedChange> kept;
  for (QueuedChange& order : queue_) {
    const auto right = order.right ? order.right(gpu_.id) : Result<void>();
    if (right) {
      kept.push_back(std::move(order));
    } else {
      lapsed.emplace_back(std::move(order), right.error());
    }
  }
  queue_ = std::move(kept);
  // Told after queue_ is whole again: a listener may submit another change.
  for (const auto& [order, why] : lapsed) refuse(order, why);
}

void GpuQueue::go_on() {
  if (plan_ || queue_.empty() || !environment_.may_begin(queue_.front())) return;
  pending_ = std::move(queue_.front());
  queue_.pop_front();
  began_ = environment_.loop.now();
  const auto kind = kind_of(pending_->job);
  const Holding* kept = kind ? holding(*kind) : nullptr;
  claims_before_ = kept != nullptr ? kept->claims : std::vector<Claim>();
  ++plans_;
  plan_ = make_plan(*this, *pending_);
  // Not inside the call that submitted the change: the result may come at once.
  begin_soon_ = environment_.loop.call_at(began_, [this] { plan_->begin(); });
}

void GpuQueue::over(std::optional<Change> change) {
  const auto turn = std::move(plan_);
  const QueuedChange order = *std::exchange(pending_, std::nullopt);
  then_ = nullptr;
  // Taken now, because the listeners below may begin the next plan.
  const std::vector<Claim> claims_before = std::exchange(claims_before_, {});
  if (change) {
    change->gpu = gpu_.id;
    change->index = gpu_.index;
    change->operation = order.operation;
  }
  environment_.told_over(gpu_, order, change, began_);
  if (order.done) order.done(change.value_or(Change{}), claims_before);
  go_on();
}

const Holding* GpuQueue::holding(SettingKind kind) const {
  const auto found = holdings_.find(kind);
  return found == holdings_.end() ? nullptr : &found->second;
}

void GpuQueue::command(Command command, std::function<void(const Heard&)> then) {
  asked_ = {++environment_.last_command, gpu_.id,
            std::move(command),          pending_->asker.request_id,
            pending_->asker.received,    puts_back(*pending_)};
  then_ = std::move(then);
  auto why = obstacle(asked_.command);
  sent_ = !why && environment_.commander.command(asked_);
  if (sent_) return;
  if (!why) {
    why = is_change(asked_.command) ? environment_.commander.obstacle() : std::nullopt;
  }
  if (!why) {
    why = {Errc::unavailable, "the driver-host is unavailable; nothing was changed, try again"};
  }
  CommandReply refused;
  refused.id = asked_.id;
  refused.failure = CommandFailure{why->code, why->text()};
  begin_soon_ = environment_.loop.call_at(environment_.loop.now(), [this, refused] {
    if (then_ && refused.id == asked_.id) hear({refused});
  });
}

// Returns an error if the right ended while the disk was written. A Restore needs no right.
std::optional<Error> GpuQueue::obstacle(const Command& command) const {
  const bool takes =
      !std::holds_alternative<Look>(command) && !std::holds_alternative<Restore>(pending_->job);
  if (!pending_->right || !takes) return std::nullopt;
  const auto right = pending_->right(gpu_.id);
  return right ? std::nullopt : std::optional(right.error());
}

void GpuQueue::on_reply(const CommandReply& reply) {
  if (then_ && reply.id == asked_.id) hear({reply});
}

void GpuQueue::lose(bool changes) {
  if (!then_ || !sent_ || is_change(asked_.command) != changes) return;
  CommandReply lost;
  lost.id = asked_.id;
  lost.failure = CommandFailure{Errc::unavailable, terminated(gpu_).text()};
  hear({lost, false});
}

void GpuQueue::hear(const Heard& heard) {
  if (const auto then = std::exchange(then_, nullptr)) then(heard);
}

void GpuQueue::hold(const Holding& holding, std::function<void(const Result<void>&)> then) {
  const auto kept = in_this_turn([this, holding, then = std::move(then)](const Result<void>& done) {
    if (!done) {
      return then(Error{Errc::unavailable,
                        "nothing was changed, because the change could not be recorded first: " +
                            done.error().text()});
    }
    holdings_[holding.kind] = holding;
    then(done);
  });
  ControlTransaction entry;
  entry.put = holding;
  if (environment_.archive.save(std::move(entry), When::now, kept)) return;
  begin_soon_ = environment_.loop.call_at(
      environment_.loop.now(), [kept] { kept(Error{Errc::busy, "the disk queue is full"}); });
}

void GpuQueue::note(const Holding& holding, When when) {
  holdings_[holding.kind] = holding;
  keep(holding.kind, when);
}

void GpuQueue::forget(SettingKind kind) {
  if (holdings_.erase(kind) > 0) keep(kind, When::now);
}

void GpuQueue::keep(SettingKind kind, When when) {
  ControlTransaction entry;
  if (const Holding* holding = this->holding(kind)) {
    entry.put = *holding;
  } else {
    entry.removed = Holding{gpu_.id, kind};
  }
  const auto kept = here_.guard([this, kind](const Result<void>& done) {
    if (!done) keep_later(kind);
  });
  if (!environment_.archive.save(std::move(entry), when, kept)) keep_later(kind);
}

void GpuQueue::keep_later(SettingKind kind) {
  unkept_.insert(kind);
  keep_timer_ = environment_.loop.call_after(kTryAgain, [this] {
    for (const SettingKind one : std::exchange(unkept_, {})) keep(one, When::now);
  });
}

void GpuQueue::settle_later(SettingKind kind) {
  unsettled_.insert(kind);
  settle_timer_ = environment_.loop.call_after(kTryAgain, [this] {
    for (const SettingKind one : std::exchange(unsettled_, {})) take_own(Settle{one});
  });
}

void GpuQueue::on_setter_back() {
  settle_timer_.reset();
  for (const SettingKind one : std::exchange(unsettled_, {})) take_own(Settle{one});
}

void GpuQueue::on_driver_back() {
  for (const auto& [kind, holding] : holdings_) take_own(Settle{kind});
}

void GpuQueue::suspend() {
  for (const auto& [kind, holding] : holdings_) take_own(Suspend{kind});
}

void GpuQueue::reset(bool dry_run, std::function<void(const Result<void>&)> then) {
  environment_.reset(gpu_, dry_run, in_this_turn(std::move(then)));
}

void GpuQueue::abandon() {
  closed_ = true;
  begin_soon_.reset();
  then_ = nullptr;
  plan_ = nullptr;
  if (const auto order = std::exchange(pending_, std::nullopt)) refuse(*order, terminated(gpu_));
  for (const QueuedChange& order : std::exchange(queue_, {})) refuse(order, terminated(gpu_));
}

}  // namespace gpuyard::control
