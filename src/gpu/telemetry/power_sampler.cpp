#include "gpu/telemetry/power_sampler.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/telemetry/poll_state.h"

namespace gpuyard::telemetry {

Subscription PowerSampler::subscribe(const DeviceId& id, Duration period, OnPower on_power) {
  const std::uint64_t listener = next_++;
  Gpu& gpu = gpus_[id];
  gpu.subscribers[listener] = {std::clamp(period, kMinPowerInterval, kMaxPowerInterval),
                               loop_.now(), std::move(on_power)};
  // Restarts the timer, because this listener may want the shortest period. Never polls inside this
  // call: the listener is not ready.
  gpu.timer = loop_.call_at(loop_.now(), [this, id] { poll(id); });
  return Subscription(lifetime_.guard([this, id, listener] { unsubscribe(id, listener); }));
}

void PowerSampler::unsubscribe(const DeviceId& id, std::uint64_t listener) {
  const auto gpu = gpus_.find(id);
  if (gpu == gpus_.end()) return;
  gpu->second.subscribers.erase(listener);
  if (gpu->second.subscribers.empty()) gpus_.erase(gpu);
}

void PowerSampler::poll(const DeviceId& id) {
  const auto found = gpus_.find(id);
  if (found == gpus_.end()) return;
  Gpu& gpu = found->second;
  const TimePoint now = loop_.now();
  Duration period = kMaxPowerInterval;
  for (const auto& [_, listener] : gpu.subscribers) period = std::min(period, listener.period);
  gpu.timer = loop_.call_at(now + period, [this, id] { poll(id); });
  if (gpu.requested_at && now - *gpu.requested_at < kUnresponsiveTimeout) return;
  const bool overdue = gpu.requested_at.has_value();
  gpu.requested_at = now;
  request_read_(id);  // requested again, because the reply may be lost with the driver-host
  if (overdue) notify(id, {Metric::power_draw, 0, now, Missing{MissingReason::timed_out, ""}});
}

void PowerSampler::on_sample(const DeviceId& id, const Sample& sample) {
  const auto found = gpus_.find(id);
  if (found == gpus_.end()) return;
  const Reading* const instant = sample.find(Metric::power_draw_instant);
  const Reading* const average = sample.find(Metric::power_draw);
  if (instant == nullptr || average == nullptr) return;  // the reply to another query
  const Reading* const reading = instant->missing() == nullptr ? instant : average;
  found->second.requested_at.reset();
  notify(id, *reading);
}

void PowerSampler::notify(const DeviceId& id, const Reading& reading) {
  // Half the shortest period. Listeners with longer periods are not called too often by the reads
  // for the shortest one, and a reading that comes a little early is not skipped.
  constexpr Duration kTolerance = kMinPowerInterval / 2;
  const TimePoint now = loop_.now();
  std::vector<std::uint64_t> due;
  for (auto& [number, listener] : gpus_.at(id).subscribers) {
    if (now + kTolerance < listener.due_at) continue;
    listener.due_at = std::max(listener.due_at + listener.period, now);
    due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    // An earlier listener may have left, or made others leave.
    const auto gpu = gpus_.find(id);
    if (gpu == gpus_.end()) return;
    const auto listener = gpu->second.subscribers.find(number);
    if (listener == gpu->second.subscribers.end()) continue;
    const OnPower on_power = listener->second.on_power;
    on_power(reading);
  }
}

}  // namespace gpuyard::telemetry
