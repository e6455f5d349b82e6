#include "faces/library/local_control.h"

#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/mutex.h"
#include "base/try.h"
#include "faces/library/monitor.h"
#include "gpu/device/error.h"
#include "gpu/driver/command_workers.h"

namespace gpuyard::library {

// Holds an answer until its caller takes it; the caller may have gone before it comes.
struct PendingReply::SharedState {
  // Runs on the GPU's worker.
  void deliver(const CommandReply&);

  Mutex mutex;
  ConditionVariable changed;
  std::optional<CommandReply> reply GUARDED_BY(mutex);
  bool taken GUARDED_BY(mutex) = false;
  bool abandoned GUARDED_BY(mutex) = false;  // the caller has gone
};

void PendingReply::SharedState::deliver(const CommandReply& answer) {
  MutexLock lock(mutex);
  if (abandoned) {
    lock.unlock();
    return log::error("Failed to send response to caller");
  }
  reply = answer;
  lock.unlock();
  changed.notify_all();
}

PendingReply::PendingReply(std::shared_ptr<SharedState> state) : state_(std::move(state)) {}
PendingReply::PendingReply(PendingReply&&) noexcept = default;

PendingReply& PendingReply::operator=(PendingReply&& other) noexcept {
  if (this == &other) return *this;
  abandon();
  state_ = std::move(other.state_);
  return *this;
}

PendingReply::~PendingReply() {
  abandon();
}

void PendingReply::abandon() {
  if (!state_) return;
  const MutexLock lock(state_->mutex);
  state_->abandoned = true;
}

Result<CommandReply> PendingReply::wait(Duration at_most) {
  const MutexLock lock(state_->mutex);
  if (state_->taken) return Error{Errc::invalid, "the result of this command was already taken"};
  const auto has_reply = [&]() REQUIRES(state_->mutex) { return state_->reply.has_value(); };
  if (!state_->changed.wait_for(state_->mutex, at_most, has_reply)) {
    return Error{Errc::timed_out,
                 fmt::format("the GPU did not finish within {} ms; it may still do so",
                             to_milliseconds(at_most))};
  }
  state_->taken = true;
  if (state_->reply->failure) return *state_->reply->failure;
  return *state_->reply;
}

struct LocalControl::State {
  State(const std::shared_ptr<Backend>& backend, Monitor opened)
      : monitor(std::move(opened)),
        workers(backend, monitor.gpu_count(),
                [this](const CommandReply& reply) { on_reply(reply); }) {}

  Result<void> send(std::uint32_t index, Command&& command, CommandContext&& context,
                    OnReply&& on_done);

  // Must not use `this` after `on_done` has run: it may have held the last LocalControl.
  void on_reply(const CommandReply& reply) {
    MutexLock lock(mutex);
    const auto entry = pending_replies.extract(reply.id);
    lock.unlock();
    if (entry) entry.mapped()(reply);
  }

  const Monitor monitor;
  Mutex mutex;
  std::uint64_t last_id GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, OnReply> pending_replies GUARDED_BY(mutex);
  driver::CommandWorkers workers;  // last: its threads use the members above
};

namespace {

Error gpu_unavailable_error(const DeviceInfo& info) {
  const bool lost = info.fault->reason == MissingReason::device_lost;
  return {lost ? Errc::device_lost : Errc::unavailable,
          fmt::format("GPU {} cannot be controlled: {}", info.index, describe(*info.fault))};
}

}  // namespace

Result<void> LocalControl::State::send(std::uint32_t index, Command&& command,
                                       CommandContext&& context, OnReply&& on_done) {
  const DeviceInfo* info = monitor.device(index);
  if (info == nullptr) return index_range_error(index);
  if (info->fault) return gpu_unavailable_error(*info);
  MutexLock lock(mutex);
  const std::uint64_t id = ++last_id;
  if (on_done) pending_replies.emplace(id, std::move(on_done));
  lock.unlock();
  auto sent = workers.send(
      index, {id, info->id, std::move(command), std::move(context.request_id), context.received});
  if (sent) return sent;
  lock.lock();
  const auto unused = pending_replies.extract(id);
  lock.unlock();
  return sent;
}

Result<LocalControl> LocalControl::open(const std::shared_ptr<Backend>& backend, Duration timeout) {
  auto monitor = GPUYARD_TRY(Monitor::open(backend, timeout));
  return LocalControl(std::make_shared<State>(backend, std::move(monitor)));
}

LocalControl::LocalControl(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::uint32_t LocalControl::device_count() const {
  return state_->monitor.gpu_count();
}

Result<void> LocalControl::send_command_nonblocking(std::uint32_t index, Command command,
                                                    CommandContext context, OnReply on_done) const {
  return state_->send(index, std::move(command), std::move(context), std::move(on_done));
}

Result<PendingReply> LocalControl::send_command(std::uint32_t index, Command command,
                                                CommandContext context) const {
  const auto state = std::make_shared<PendingReply::SharedState>();
  auto sent = state_->send(index, std::move(command), std::move(context),
                           [state](const CommandReply& reply) { state->deliver(reply); });
  if (!sent) return std::move(sent).error();
  return PendingReply(state);
}

Result<CommandReply> LocalControl::send_command_blocking(std::uint32_t index, Command command,
                                                         Duration timeout,
                                                         CommandContext context) const {
  auto pending = GPUYARD_TRY(send_command(index, std::move(command), std::move(context)));
  return pending.wait(timeout);
}

Result<std::int64_t> LocalControl::get_instant_power_mw(std::uint32_t index,
                                                        Duration timeout) const {
  auto power = state_->monitor.read(index, Metric::power_draw_instant, timeout);
  if (power || power.error().code != Errc::unsupported) return power;
  return state_->monitor.read(index, Metric::power_draw, timeout);
}

void LocalControl::close() const {
  state_->workers.close();
}

}  // namespace gpuyard::library
