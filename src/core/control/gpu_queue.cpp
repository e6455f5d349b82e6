#include "core/control/gpu_queue.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::control {

namespace {

// Returns whether the task repeats or undoes an accepted change.
bool is_restoration(const QueuedChange& change) {
  return change.requester.internal || std::holds_alternative<Restore>(change.task) ||
         std::holds_alternative<RollBackChange>(change.task);
}

}  // namespace

Error terminated_error(const DeviceInfo& gpu) {
  return {Errc::unavailable, fmt::format("GPU management task for GPU {} terminated", gpu.index)};
}

void GpuQueue::submit(QueuedChange change) {
  if (closed_) {
    return refuse(change,
                  {Errc::unavailable, "gpuyard is shutting down and accepts no more commands"});
  }
  const bool undoes = std::holds_alternative<RollBackChange>(change.task);
  if (queue_.size() >= kMaxQueuedChanges && !undoes) {
    return refuse(change, {Errc::busy,
                           fmt::format("{} commands are already queued for GPU {}; try again later",
                                       kMaxQueuedChanges, gpu_.index)});
  }
  queue_.push_back(std::move(change));
  if (take_next()) executor_->start();
}

void GpuQueue::refuse(const QueuedChange& queued_change, Error why) {
  const ChangeResult result{.gpu = gpu_.id,
                            .index = gpu_.index,
                            .operation_id = queued_change.operation_id,
                            .kind = kind_of(queued_change.task),
                            .error = std::move(why)};
  environment_.on_finished(gpu_, queued_change, result, environment_.loop.now());
  if (queued_change.on_done) queued_change.on_done(result, {});
}

void GpuQueue::enqueue_internal(ChangeTask task) {
  const auto same = [&](const QueuedChange& one) {
    return one.task.index() == task.index() && kind_of(one.task) == kind_of(task);
  };
  if (!std::holds_alternative<RollBackChange>(task) && std::ranges::any_of(queue_, same)) return;
  ChangeRequester requester{kDaemonOwner, true, "", environment_.loop.now()};
  requester.internal = true;
  queue_.push_back({std::move(requester), std::move(task)});
  start_next();
}

void GpuQueue::refuse_unauthorized() {
  std::vector<std::pair<QueuedChange, Error>> unauthorized;
  std::deque<QueuedChange> authorized_changes;
  for (QueuedChange& change : queue_) {
    const auto authorized =
        change.authorization_check ? change.authorization_check(gpu_.id) : Result<void>();
    if (authorized) {
      authorized_changes.push_back(std::move(change));
    } else {
      unauthorized.emplace_back(std::move(change), authorized.error());
    }
  }
  queue_ = std::move(authorized_changes);
  // Refused after queue_ is whole again: a callback may submit another change.
  for (const auto& [change, why] : unauthorized) refuse(change, why);
}

void GpuQueue::start_next() {
  if (!take_next()) return;
  // Not inside the call that queued the change: that may come from a loop over the settings here.
  start_timer_ = environment_.loop.call_at(started_at_, [this] { executor_->start(); });
}

// Makes the next waiting change the current one, if one may begin now.
bool GpuQueue::take_next() {
  if (executor_ || queue_.empty() || !environment_.try_start(queue_.front())) return false;
  current_ = std::move(queue_.front());
  queue_.pop_front();
  started_at_ = environment_.loop.now();
  const auto kind = kind_of(current_->task);
  const ManagedSetting* managed = kind ? settings_.find(*kind) : nullptr;
  claims_before_ = managed != nullptr ? managed->claims : std::vector<SettingClaim>();
  executor_ = make_executor(*this, *current_);
  return true;
}

void GpuQueue::finish(std::optional<ChangeResult> result) {
  const auto executor = std::move(executor_);
  const QueuedChange queued_change = *std::exchange(current_, std::nullopt);
  on_completion_ = nullptr;
  // Removed now, because the callbacks below may begin the next change.
  const std::vector<SettingClaim> claims_before = std::exchange(claims_before_, {});
  if (result) {
    result->gpu = gpu_.id;
    result->index = gpu_.index;
    result->operation_id = queued_change.operation_id;
  }
  environment_.on_finished(gpu_, queued_change, result, started_at_);
  if (queued_change.on_done) queued_change.on_done(result.value_or(ChangeResult{}), claims_before);
  start_next();
}

void GpuQueue::send_command(Command command, std::function<void(const CommandReply&)> on_done) {
  command_request_ = {++environment_.last_command_id,
                      gpu_.id,
                      std::move(command),
                      current_->requester.request_id,
                      current_->requester.received,
                      is_restoration(*current_)};
  on_completion_ = std::move(on_done);
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
  refused.failure = Error{why->code, why->text()};
  start_timer_ = environment_.loop.call_at(environment_.loop.now(), [this, refused] {
    on_reply(CommandReply(refused));  // a copy: this timer may end with the change
  });
}

// Returns an error if the right ended while the disk was written. A Restore needs no right.
std::optional<Error> GpuQueue::authorization_error(const Command& command) const {
  const bool needs_authorization = !std::holds_alternative<ReadSetting>(command) &&
                                   !std::holds_alternative<Restore>(current_->task);
  if (!current_->authorization_check || !needs_authorization) return std::nullopt;
  const auto authorized = current_->authorization_check(gpu_.id);
  return authorized ? std::nullopt : std::optional(authorized.error());
}

void GpuQueue::on_reply(const CommandReply& reply) {
  if (on_completion_ && reply.id == command_request_.id) on_command_done(reply);
}

void GpuQueue::fail_sent_command(bool changes) {
  if (!on_completion_ || !sent_ || is_change(command_request_.command) != changes) return;
  CommandReply reply;
  reply.id = command_request_.id;
  reply.failure = Error{Errc::unavailable, terminated_error(gpu_).text()};
  reply.outcome_known = false;
  on_command_done(reply);
}

void GpuQueue::on_command_done(const CommandReply& reply) {
  if (const auto on_done = std::exchange(on_completion_, nullptr)) on_done(reply);
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
  for (const auto& [kind, managed] : settings_.all()) enqueue_internal(ReconcileSetting{kind});
}

void GpuQueue::suspend() {
  for (const auto& [kind, managed] : settings_.all()) enqueue_internal(Suspend{kind});
}

void GpuQueue::reset_gpu(bool dry_run, std::function<void(const Result<void>&)> on_done) {
  environment_.reset_gpu(gpu_, dry_run, std::move(on_done));
}

void GpuQueue::abandon() {
  closed_ = true;
  start_timer_.reset();
  on_completion_ = nullptr;
  executor_ = nullptr;
  if (const auto change = std::exchange(current_, std::nullopt))
    refuse(*change, terminated_error(gpu_));
  for (const QueuedChange& change : std::exchange(queue_, {}))
    refuse(change, terminated_error(gpu_));
}

}  // namespace gpuyard::control
