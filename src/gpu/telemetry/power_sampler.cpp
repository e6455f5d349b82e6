#include "gpu/telemetry/power_sampler.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/telemetry/poll_state.h"

namespace gpuyard::telemetry {

Subscription Burst::listen(const DeviceId& id, Duration period, OnPower heard) {
  const std::uint64_t listener = next_++;
  Gpu& gpu = gpus_[id];
  gpu.listeners[listener] = {std::clamp(period, kShortestBurst, kLongestBurst), loop_.now(),
                             std::move(heard)};
  // Restarts the timer, because this listener may want the shortest period. Never polls inside this
  // call: the listener is not ready.
  gpu.timer = loop_.call_at(loop_.now(), [this, id] { poll(id); });
  return Subscription(here_.guard([this, id, listener] { leave(id, listener); }));
}

void Burst::leave(const DeviceId& id, std::uint64_t listener) {
  const auto gpu = gpus_.find(id);
  if (gpu == gpus_.end()) return;
  gpu->second.listeners.erase(listener);
  if (gpu->second.listeners.empty()) gpus_.erase(gpu);
}

void Burst::poll(const DeviceId& id) {
  const auto found = gpus_.find(id);
  if (found == gpus_.end()) return;
  Gpu& gpu = found->second;
  const TimePoint now = loop_.now();
  Duration period = kLongestBurst;
  for (const auto& [_, listener] : gpu.listeners) period = std::min(period, listener.period);
  gpu.timer = loop_.call_at(now + period, [this, id] { poll(id); });
  if (gpu.asked && now - *gpu.asked < kUnresponsiveAfter) return;
  const bool overdue = gpu.asked.has_value();
  gpu.asked = now;
  ask_(id);  // asked again, because the answer may be lost with the driver-host
  if (overdue) tell(id, {Metric::power_draw, 0, now, Missing{MissingReason::timed_out, ""}});
}

void Burst::on_sample(const DeviceId& id, const Sample& sample) {
  const auto found = gpus_.find(id);
  if (found == gpus_.end()) return;
  const Reading* const instant = sample.find(Metric::power_draw_instant);
  const Reading* const average = sample.find(Metric::power_draw);
  if (instant == nullptr || average == nullptr) return;  // the answer to another query
  const Reading* const reading = instant->missing() == nullptr ? instant : average;
  found->second.asked.reset();
  tell(id, *reading);
}

void Burst::tell(const DeviceId& id, const Reading& reading) {
  // Half the shortest period. Listeners with longer periods are not called too often by the reads
  // for the shortest one, and a reading that comes a little early is not skipped.
  constexpr Duration kEarly = kShortestBurst / 2;
  const TimePoint now = loop_.now();
  std::vector<std::uint64_t> due;
  for (auto& [number, listener] : gpus_.at(id).listeners) {
    if (now + kEarly < listener.due) continue;
    listener.due = std::max(listener.due + listener.period, now);
    due.push_back(number);
  }
  for (const std::uint64_t number : due) {
    // An earlier listener may have left, or made others leave.
    const auto gpu = gpus_.find(id);
    if (gpu == gpus_.end()) return;
    const auto listener = gpu->second.listeners.find(number);
    if (listener == gpu->second.listeners.end()) continue;
    const OnPower heard = listener->second.heard;
    heard(reading);
  }
}

std::size_t Burst::listeners() const {
  std::size_t count = 0;
  for (const auto& [_, gpu] : gpus_) count += gpu.listeners.size();
  return count;
}

}  // namespace gpuyard::telemetry
