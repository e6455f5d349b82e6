#include "faces/library/monitor.h"

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/try.h"
#include "gpu/device/catalog.h"
#include "gpu/device/error.h"
#include "gpu/device/health_tracker.h"
#include "gpu/driver/read_workers.h"

namespace gpuyard::library {
namespace {

using Samples = std::map<DeviceId, Sample>;

// The answers to one call of inventory().
struct Round {
  std::size_t awaited = 0;  // the caller wakes up once, for all of them
  Samples samples = {};
};

constexpr Duration kCountTimeout = std::chrono::milliseconds(250);

bool is_gone(const DeviceState& device) {
  if (device.info.fault) return true;
  return device.condition == DeviceCondition::unavailable;
}

// Initialisation may never return; then its thread is left behind.
Result<DriverSession> start(const std::shared_ptr<Backend>& backend) {
  const auto promise = std::make_shared<std::promise<Result<DriverSession>>>();
  auto session = promise->get_future();
  std::thread([backend, promise] { promise->set_value(backend->start()); }).detach();
  if (session.wait_for(Monitor::kInitTimeout) == std::future_status::ready) return session.get();
  return init_error("the driver did not respond in time");
}

}  // namespace

struct Monitor::State {
  State(std::shared_ptr<Backend> backend, DriverSession session, Duration timeout,
        HealthPolicy policy)
      : health(std::move(policy)),
        workers(std::move(backend), session.gpu_count,
                {[this](ReadReply reply) { on_reply(std::move(reply)); }}),
        inventory{std::move(session.driver), workers.devices(timeout)} {
    // Later counts of ECC errors are compared with this first one.
    constexpr ProbeSet kCounters = {Probe::ecc_totals};
    Samples samples = read_devices(inventory.devices, kCounters, std::min(timeout, kCountTimeout));
    for (const DeviceInfo& info : inventory.devices) update_state(info, samples, kCounters);
  }

  void on_reply(ReadReply reply) {
    {
      const MutexLock lock(mutex);
      const auto round = rounds.find(reply.id);
      if (round == rounds.end()) return;  // its caller has timed out
      auto& [awaited, samples] = round->second;
      samples.emplace(std::move(reply.device), std::move(reply.sample));
      if (samples.size() < awaited) return;
    }
    round_complete.notify_all();
  }

  // Queries these GPUs and waits until all have replied or the timeout has passed.
  Samples read_devices(const std::vector<DeviceInfo>& devices, ProbeSet probes, Duration timeout) {
    MutexLock lock(mutex);
    const std::uint64_t id = ++last_round;
    rounds.emplace(id, Round{devices.size()});
    lock.unlock();
    std::size_t sent_reads = 0;
    for (const DeviceInfo& info : devices) {
      if (workers.read({id, info.id, probes})) ++sent_reads;
    }
    lock.lock();
    Round& round = rounds.at(id);
    round.awaited = sent_reads;
    round_complete.wait_for(
        mutex, timeout, [&]() REQUIRES(mutex) { return round.samples.size() >= round.awaited; });
    return std::move(rounds.extract(id).mapped().samples);
  }

  DeviceState update_state(const DeviceInfo& info, Samples& samples, ProbeSet probes) {
    const auto answer = samples.find(info.id);
    std::optional<Sample> sample;
    if (answer != samples.end()) sample = std::move(answer->second);
    DeviceState state = device_state(info, std::move(sample), probes, BootClock::now());
    const MutexLock lock(mutex);
    health.update(info.id, state.sample);
    state.health = health.evaluate_health(state);
    return state;
  }

  Mutex mutex;
  ConditionVariable round_complete;
  std::uint64_t last_round GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, Round> rounds GUARDED_BY(mutex);
  HealthTracker health GUARDED_BY(mutex);
  driver::ReadWorkers workers;  // its threads use the members above
  const Inventory inventory;
};

Result<Monitor> Monitor::open(std::shared_ptr<Backend> backend, Duration timeout,
                              HealthPolicy policy) {
  auto session = GPUYARD_TRY(start(backend));
  return Monitor(
      std::make_unique<State>(std::move(backend), std::move(session), timeout, std::move(policy)));
}

Monitor::Monitor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&&) noexcept = default;
Monitor::~Monitor() = default;

std::uint32_t Monitor::gpu_count() const {
  return static_cast<std::uint32_t>(state_->inventory.devices.size());
}

const DeviceInfo* Monitor::device(std::uint32_t index) const {
  const auto& devices = state_->inventory.devices;
  return index < devices.size() ? &devices[index] : nullptr;
}

const DriverInfo& Monitor::driver() const {
  return state_->inventory.driver;
}

Snapshot Monitor::inventory(Duration timeout, ProbeSet probes) const {
  const auto& devices = state_->inventory.devices;
  Samples samples = state_->read_devices(devices, probes, timeout);
  Snapshot snapshot;
  snapshot.taken = BootClock::now();
  snapshot.wall = wall_now();
  snapshot.driver = {true, "", state_->inventory.driver};
  for (const DeviceInfo& info : devices) {
    snapshot.devices.push_back(state_->update_state(info, samples, probes));
  }
  return snapshot;
}

Snapshot Monitor::snapshot(Duration timeout, ProbeSet probes) const {
  Snapshot visible = inventory(timeout, probes);
  std::erase_if(visible.devices, is_gone);
  return visible;
}

Result<std::int64_t> Monitor::read(std::uint32_t index, Metric metric, Duration timeout) const {
  const MetricRow& row = row_of(metric);
  const bool is_number = row.subject == MetricSubject::device && row.kind != MetricKind::text;
  if (!is_number) return unsupported_feature_error(row.key);
  if (index >= state_->inventory.devices.size()) return index_range_error(index);
  const DeviceInfo& info = state_->inventory.devices[index];
  const ProbeSet probes = probes_for(std::array{metric});
  Samples samples = state_->read_devices({info}, probes, timeout);
  const DeviceState state = state_->update_state(info, samples, probes);
  if (const std::int64_t* number = state.sample.number(metric)) return *number;
  const Reading* reading = state.sample.find(metric);
  const Missing why = reading != nullptr ? *reading->missing() : Missing{};
  if (why.reason == MissingReason::not_supported) {
    return unsupported_feature_error(row.key);
  }
  const bool is_lost = why.reason == MissingReason::device_lost;
  return query_error(describe(why), is_lost ? Errc::device_lost : Errc::unavailable);
}

Result<HealthReport> Monitor::health(std::uint32_t index, Duration timeout) const {
  if (index >= state_->inventory.devices.size()) return index_range_error(index);
  const DeviceInfo& info = state_->inventory.devices[index];
  Samples samples = state_->read_devices({info}, kHealthProbes, timeout);
  return state_->update_state(info, samples, kHealthProbes).health;
}

Result<void> Monitor::acknowledge_ecc_errors(std::uint32_t index) const {
  if (index >= state_->inventory.devices.size()) return index_range_error(index);
  const MutexLock lock(state_->mutex);
  state_->health.acknowledge(state_->inventory.devices[index].id);
  return {};
}

std::vector<GpuMetrics> Monitor::collect_metrics(Duration timeout) const {
  std::vector<GpuMetrics> metrics;
  for (const DeviceState& device : snapshot(timeout, kMetricsProbes).devices) {
    metrics.push_back(metrics_of(device));
  }
  return metrics;
}

}  // namespace gpuyard::library
