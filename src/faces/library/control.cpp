#include "library/control.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "device/error.h"
#include "driver/commanders.h"
#include "library/energy_window.h"
#include "library/monitor.h"

namespace gpuyard::library {

struct LocalControl::State {
  State(const std::shared_ptr<Backend>& backend, Monitor opened)
      : monitor(std::move(opened)),
        commanders(backend, monitor.gpu_count(),
                   [this](const CommandReply& reply) { on_reply(reply); }) {}

  Result<void> send(std::uint32_t index, Command&& command, CommandContext&& context, Told&& told);

  // Must not use `this` after `told` has run: `told` may have held the last Control.
  void on_reply(const CommandReply& reply) {
    std::unique_lock lock(mutex);
    const auto entry = waiting.extract(reply.id);
    lock.unlock();
    if (entry) entry.mapped()(reply);
  }

  const Monitor monitor;
  std::mutex mutex;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, Told> waiting;
  driver::Commanders commanders;  // last: its threads use the members above
};

namespace {

Error not_open(const DeviceInfo& info) {
  const bool lost = info.fault->reason == MissingReason::device_lost;
  return {lost ? Errc::device_lost : Errc::unavailable,
          fmt::format("GPU {} cannot be controlled: {}", info.index, describe(*info.fault))};
}

}  // namespace

Result<void> LocalControl::State::send(std::uint32_t index, Command&& command,
                                       CommandContext&& context, Told&& told) {
  const DeviceInfo* info = monitor.device(index);
  if (info == nullptr) return index_out_of_range(index);
  if (info->fault) return not_open(*info);
  std::unique_lock lock(mutex);
  const std::uint64_t id = ++last_id;
  if (told) waiting.emplace(id, std::move(told));
  lock.unlock();
  auto sent = commanders.send(
      index, {id, info->id, std::move(command), std::move(context.request_id), context.received});
  if (sent) return sent;
  lock.lock();
  const auto unused = waiting.extract(id);
  lock.unlock();
  return sent;
}

Result<LocalControl> LocalControl::open(const std::shared_ptr<Backend>& backend,
                                        Duration deadline) {
  auto monitor = Monitor::open(backend, deadline);
  if (!monitor) return std::move(monitor).error();
  return LocalControl(std::make_shared<State>(backend, *std::move(monitor)));
}

LocalControl::LocalControl(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::uint32_t LocalControl::device_count() const {
  return state_->monitor.gpu_count();
}

Result<void> LocalControl::send_command_nonblocking(std::uint32_t index, Command command,
                                                    CommandContext context, Told told) const {
  return state_->send(index, std::move(command), std::move(context), std::move(told));
}

Result<PendingReply> LocalControl::send_command(std::uint32_t index, Command command,
                                                CommandContext context) const {
  const auto slot = std::make_shared<PendingReply::Slot>();
  auto sent = state_->send(index, std::move(command), std::move(context),
                           [slot](const CommandReply& reply) { slot->deliver(reply); });
  if (!sent) return std::move(sent).error();
  return PendingReply(slot);
}

Result<CommandReply> LocalControl::send_command_blocking(std::uint32_t index, Command command,
                                                         Duration deadline,
                                                         CommandContext context) const {
  auto pending = send_command(index, std::move(command), std::move(context));
  if (!pending) return std::move(pending).error();
  return pending->wait(deadline);
}

Result<std::int64_t> LocalControl::get_instant_power_mw(std::uint32_t index,
                                                        Duration deadline) const {
  auto power = state_->monitor.read(index, Metric::power_draw_instant, deadline);
  if (power || power.error().code != Errc::unsupported) return power;
  return state_->monitor.read(index, Metric::power_draw, deadline);
}

void LocalControl::close() const {
  state_->commanders.close();
}

}  // namespace gpuyard::library
