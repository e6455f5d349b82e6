#include "core/control/gpu_queue.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

namespace {

// A job that repeats or takes back what was accepted before.
bool is_restoration(const QueuedChange& order) {
  return order.requester.internal || std::holds_alternative<Restore>(order.task) ||
         std::holds_alternative<RollBackChange>(order.task);
}

}  // namespace

Error terminated_error(const DeviceInfo& gpu) {
  return {Errc::unavailable, fmt::format("GPU management task for GPU {} terminated", gpu.index)};
}

// Guards a callback of the archive or of a reset, which may come when the plan that waits for it,
// or the queue, is gone.
ControlStorage::OnSaved GpuQueue::guard_callback(ControlStorage::OnSaved then) {
  return lifetime_.guard(
      [this, then = std::move(then), turn = generation_](const Result<void>& done) {
        if (executor_ && turn == generation_) then(done);
      });
}

void GpuQueue::submit(QueuedChange order) {
  if (closed_) {
    return refuse(order,
                  {Errc::unavailable, "gpuyard is shutting down and accepts no more commands"});
  }
  const bool undoes = std::holds_alternative<RollBackChange>(order.task);
  if (queue_.size() >= kMaxQueuedChanges && !undoes) {
    return refuse(order, {Errc::busy,
                          fmt::format("{} commands are already queued for GPU {}; try again later",
                                      kMaxQueuedChanges, gpu_.index)});
  }
  queue_.push_back(std::move(order));
  start_next();
}

void GpuQueue::refuse(const QueuedChange& order, Error why) {
  const ChangeResult change{.gpu = gpu_.id,
                            .index = gpu_.index,
                            .operation_id = order.operation_id,
                            .kind = kind_of(order.task),
                            .error = std::move(why)};
  environment_.on_finished(gpu_, order, change, environment_.loop.now());
  if (order.on_done) order.on_done(change, {});
}

void GpuQueue::enqueue_internal(ChangeTask job) {
  const auto same = [&](const QueuedChange& one) {
    return one.task.index() == job.index() && kind_of(one.task) == kind_of(job);
  };
  if (!std::holds_alternative<RollBackChange>(job) && std::ranges::any_of(queue_, same)) return;
  ChangeRequester ourselves{kDaemonOwner, true, "", environment_.loop.now()};
  ourselves.internal = true;
  queue_.push_back({std::move(ourselves), std::move(job)});
  start_next();
}

void GpuQueue::refuse_unauthorized() {
  std::vector<std::pair<QueuedChange, Error>> lapsed;
  std::deque<QueuedChange> kept;
  for (QueuedChange& order : queue_) {
    const auto right =
        order.authorization_check ? order.authorization_check(gpu_.id) : Result<void>();
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

void GpuQueue::start_next() {
  if (executor_ || queue_.empty() || !environment_.try_start(queue_.front())) return;
  current_ = std::move(queue_.front());
  queue_.pop_front();
  started_at_ = environment_.loop.now();
  const auto kind = kind_of(current_->task);
  const ManagedSetting* kept = kind ? managed_setting(*kind) : nullptr;
  claims_before_ = kept != nullptr ? kept->claims : std::vector<SettingClaim>();
  ++generation_;
  executor_ = make_executor(*this, *current_);
  // Not inside the call that submitted the change: the result may come at once.
  start_timer_ = environment_.loop.call_at(started_at_, [this] { executor_->start(); });
}

void GpuQueue::finish(std::optional<ChangeResult> change) {
  const auto turn = std::move(executor_);
  const QueuedChange order = *std::exchange(current_, std::nullopt);
  on_completion_ = nullptr;
  // Taken now, because the listeners below may begin the next plan.
  const std::vector<SettingClaim> claims_before = std::exchange(claims_before_, {});
  if (change) {
    change->gpu = gpu_.id;
    change->index = gpu_.index;
    change->operation_id = order.operation_id;
  }
  environment_.on_finished(gpu_, order, change, started_at_);
  if (order.on_done) order.on_done(change.value_or(ChangeResult{}), claims_before);
  start_next();
}

const ManagedSetting* GpuQueue::managed_setting(SettingKind kind) const {
  const auto found = managed_settings_.find(kind);
  return found == managed_settings_.end() ? nullptr : &found->second;
}

void GpuQueue::send_command(Command command, std::function<void(const CommandCompletion&)> then) {
  command_request_ = {++environment_.last_command_id,
                      gpu_.id,
                      std::move(command),
                      current_->requester.request_id,
                      current_->requester.received,
                      is_restoration(*current_)};
  on_completion_ = std::move(then);
  auto why = authorization_error(command_request_.command);
  sent_ = !why && environment_.command_port.send(command_request_);
  if (sent_) return;
  if (!why) {
    why = is_change(command_request_.command) ? environment_.command_port.change_error()
                                              : std::nullopt;
  }
  if (!why) {
    why = {Errc::unavailable, "the driver-host is unavailable; nothing was changed, try again"};
  }
  CommandReply refused;
  refused.id = command_request_.id;
  refused.failure = CommandFailure{why->code, why->text()};
  start_timer_ = environment_.loop.call_at(environment_.loop.now(), [this, refused] {
    if (on_completion_ && refused.id == command_request_.id) on_command_done({refused});
  });
}

// Returns an error if the right ended while the disk was written. A Restore needs no right.
std::optional<Error> GpuQueue::authorization_error(const Command& command) const {
  const bool takes = !std::holds_alternative<ReadSetting>(command) &&
                     !std::holds_alternative<Restore>(current_->task);
  if (!current_->authorization_check || !takes) return std::nullopt;
  const auto right = current_->authorization_check(gpu_.id);
  return right ? std::nullopt : std::optional(right.error());
}

void GpuQueue::on_reply(const CommandReply& reply) {
  if (on_completion_ && reply.id == command_request_.id) on_command_done({reply});
}

void GpuQueue::fail_sent_command(bool changes) {
  if (!on_completion_ || !sent_ || is_change(command_request_.command) != changes) return;
  CommandReply lost;
  lost.id = command_request_.id;
  lost.failure = CommandFailure{Errc::unavailable, terminated_error(gpu_).text()};
  on_command_done({lost, false});
}

void GpuQueue::on_command_done(const CommandCompletion& heard) {
  if (const auto then = std::exchange(on_completion_, nullptr)) then(heard);
}

void GpuQueue::persist(const ManagedSetting& holding,
                       std::function<void(const Result<void>&)> then) {
  const auto kept = guard_callback([this, holding,
                                    then = std::move(then)](const Result<void>& done) {
    if (!done) {
      return then(Error{Errc::unavailable,
                        "nothing was changed, because the change could not be recorded first: " +
                            done.error().text()});
    }
    managed_settings_[holding.kind] = holding;
    then(done);
  });
  ControlTransaction entry;
  entry.put = holding;
  if (environment_.storage.save(std::move(entry), CommitTiming::now, kept)) return;
  start_timer_ = environment_.loop.call_at(
      environment_.loop.now(), [kept] { kept(Error{Errc::busy, "the disk queue is full"}); });
}

void GpuQueue::record(const ManagedSetting& holding, CommitTiming when) {
  managed_settings_[holding.kind] = holding;
  save(holding.kind, when);
}

void GpuQueue::remove(SettingKind kind) {
  if (managed_settings_.erase(kind) > 0) save(kind, CommitTiming::now);
}

void GpuQueue::save(SettingKind kind, CommitTiming when) {
  ControlTransaction entry;
  if (const ManagedSetting* holding = this->managed_setting(kind)) {
    entry.put = *holding;
  } else {
    entry.removed = ManagedSetting{gpu_.id, kind};
  }
  const auto kept = lifetime_.guard([this, kind](const Result<void>& done) {
    if (!done) save_later(kind);
  });
  if (!environment_.storage.save(std::move(entry), when, kept)) save_later(kind);
}

void GpuQueue::save_later(SettingKind kind) {
  unsaved_.insert(kind);
  save_timer_ = environment_.loop.call_after(kReconcileDelay, [this] {
    for (const SettingKind one : std::exchange(unsaved_, {})) save(one, CommitTiming::now);
  });
}

void GpuQueue::reconcile_later(SettingKind kind) {
  unreconciled_.insert(kind);
  reconcile_timer_ = environment_.loop.call_after(kReconcileDelay, [this] {
    for (const SettingKind one : std::exchange(unreconciled_, {}))
      enqueue_internal(ReconcileSetting{one});
  });
}

void GpuQueue::on_setter_back() {
  reconcile_timer_.reset();
  for (const SettingKind one : std::exchange(unreconciled_, {}))
    enqueue_internal(ReconcileSetting{one});
}

void GpuQueue::on_driver_back() {
  for (const auto& [kind, holding] : managed_settings_) enqueue_internal(ReconcileSetting{kind});
}

void GpuQueue::suspend() {
  for (const auto& [kind, holding] : managed_settings_) enqueue_internal(Suspend{kind});
}

void GpuQueue::reset_gpu(bool dry_run, std::function<void(const Result<void>&)> then) {
  environment_.reset_gpu(gpu_, dry_run, guard_callback(std::move(then)));
}

void GpuQueue::abandon() {
  closed_ = true;
  start_timer_.reset();
  on_completion_ = nullptr;
  executor_ = nullptr;
  if (const auto order = std::exchange(current_, std::nullopt))
    refuse(*order, terminated_error(gpu_));
  for (const QueuedChange& order : std::exchange(queue_, {})) refuse(order, terminated_error(gpu_));
}

}  // namespace gpuyard::control
