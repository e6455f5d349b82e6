#include "library/monitor.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "device/catalog.h"
#include "device/error.h"
#include "driver/readers.h"

namespace gpuyard::library {
namespace {

// The answers to one call of inventory().
struct Round {
  std::map<DeviceId, Sample> answers;
};

bool gone(const DeviceState& device) {
  if (device.info.fault) return true;
  return device.condition == DeviceCondition::unavailable;
}

}  // namespace

struct Monitor::State {
  State(std::shared_ptr<Backend> backend, Fleet found, bool is_simulated)
      : fleet(std::move(found)),
        simulated(is_simulated),
        readers(std::move(backend), fleet.devices,
                [this](ReadReply reply) { on_reply(std::move(reply)); }) {}

  void on_reply(ReadReply reply) {
    {
      const std::lock_guard lock(mutex);
      const auto round = rounds.find(reply.id);
      if (round == rounds.end()) return;  // its caller has given up
      round->second.answers.emplace(std::move(reply.device), std::move(reply.sample));
    }
    answered.notify_all();
  }

  Round ask(ProbeSet probes, Duration deadline) {
    std::unique_lock lock(mutex);
    const std::uint64_t id = ++last_round;
    rounds.try_emplace(id);
    lock.unlock();
    std::size_t asked = 0;
    for (const DeviceInfo& info : fleet.devices) {
      if (readers.read({id, info.id, probes})) ++asked;
    }
    lock.lock();
    Round& round = rounds[id];
    answered.wait_for(lock, deadline, [&] { return round.answers.size() >= asked; });
    return std::move(rounds.extract(id).mapped());
  }

  Fleet fleet;
  bool simulated;
  std::mutex mutex;
  std::condition_variable answered;
  std::uint64_t last_round = 0;
  std::map<std::uint64_t, Round> rounds;
  driver::Readers readers;  // last: its threads use the others
};

Result<Monitor> Monitor::open(std::unique_ptr<Backend> backend, bool simulated) {
  auto fleet = backend->enumerate();
  if (!fleet) return std::move(fleet).error();
  return Monitor(std::make_unique<State>(std::move(backend), *std::move(fleet), simulated));
}

Monitor::Monitor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&&) noexcept = default;
Monitor::~Monitor() = default;

std::uint32_t Monitor::gpu_count() const {
  return static_cast<std::uint32_t>(state_->fleet.devices.size());
}

Snapshot Monitor::inventory(Duration deadline) const {
  const ProbeSet everything = probes_of(Tier::fast) | probes_of(Tier::slow);
  Round round = state_->ask(everything, deadline);
  Snapshot snapshot;
  snapshot.taken = BootClock::now();
  snapshot.wall = wall_now();
  snapshot.simulated = state_->simulated;
  snapshot.driver = {true, "", state_->fleet.driver};
  for (const DeviceInfo& info : state_->fleet.devices) {
    const auto answer = round.answers.find(info.id);
    std::optional<Sample> sample;
    if (answer != round.answers.end()) sample = std::move(answer->second);
    snapshot.devices.push_back(device_state(info, std::move(sample), everything, snapshot.taken));
  }
  return snapshot;
}

Snapshot Monitor::snapshot(Duration deadline) const {
  Snapshot visible = inventory(deadline);
  std::erase_if(visible.devices, gone);
  return visible;
}

Result<std::int64_t> Monitor::read(std::uint32_t index, Metric metric, Duration deadline) const {
  const auto info = std::find_if(state_->fleet.devices.begin(), state_->fleet.devices.end(),
                                 [&](const DeviceInfo& one) { return one.index == index; });
  if (info == state_->fleet.devices.end()) return index_out_of_range(index);
  const Snapshot all = inventory(deadline);
  for (const DeviceState& device : all.devices) {
    if (device.info.index != index) continue;
    const Reading reading = reading_of(all, device, metric);
    if (const std::int64_t* number = reading.number()) return *number;
    const Missing why = reading.missing() != nullptr ? *reading.missing() : Missing{};
    if (why.reason == MissingReason::not_supported) {
      return feature_not_supported(row_of(metric).key);
    }
    return query_failed(describe(why), why.reason == MissingReason::device_lost
                                           ? Errc::device_lost
                                           : Errc::unavailable);
  }
  return index_out_of_range(index);
}

std::vector<GpuMetrics> Monitor::collect_metrics(Duration deadline) const {
  std::vector<GpuMetrics> metrics;
  for (const DeviceState& device : snapshot(deadline).devices) {
    metrics.push_back(metrics_of(device));
  }
  return metrics;
}

}  // namespace gpuyard::library
