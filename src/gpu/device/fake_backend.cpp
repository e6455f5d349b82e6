#include "gpu/device/fake_backend.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "gpu/device/catalog.h"
#include "gpu/device/fake_fleet.h"

namespace gpuyard::fakes {
namespace {

Missing lost_gpu() {
  return {MissingReason::device_lost, "GPU is lost"};
}

}  // namespace

FakeFleet FakeFleet::with_healthy_gpus(std::uint32_t count, std::int64_t memory) {
  FakeFleet fleet(std::make_shared<State>());
  for (std::uint32_t i = 0; i < count; ++i) fleet.add_gpu(i, "Fake GPU", memory);
  return fleet;
}

FakeFleet FakeFleet::without_driver(Error why) {
  auto state = std::make_shared<State>();
  {
    const MutexLock lock(state->mutex);
    state->no_driver = std::move(why);
  }
  return FakeFleet(std::move(state));
}

bool FakeFleet::add_gpu(std::uint32_t index, const std::string& name, std::int64_t memory) {
  const MutexLock lock(state_->mutex);
  if (state_->at(index) != nullptr) return false;
  const std::uint32_t number = state_->made++;
  const std::string uuid = fmt::format("GPU-00000000-0000-4000-8000-{:012x}", number);
  const std::string pci = fmt::format("0000:{:02x}:00.0", number + 1);
  State::Gpu gpu{{uuid, index, uuid, pci, name, {}}, {}, {}};
  gpu.values = {{Metric::memory_total, memory},
                {Metric::memory_free, memory},
                {Metric::memory_used, std::int64_t{0}},
                {Metric::temperature_core, std::int64_t{40}},
                {Metric::utilization_gpu, std::int64_t{0}},
                {Metric::ecc_uncorrected_volatile, std::int64_t{0}},
                {Metric::ecc_uncorrected_aggregate, std::int64_t{0}}};
  state_->gpus.push_back(std::move(gpu));
  std::ranges::sort(state_->gpus, {}, [](const State::Gpu& one) { return one.info.index; });
  return true;
}

void FakeFleet::set_number(std::uint32_t index, Metric metric, std::int64_t value) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.values[metric] = value; });
}

void FakeFleet::set_missing(std::uint32_t index, Metric metric, Missing why) {
  state_->change(index, [&](State::Gpu& gpu) { gpu.values[metric] = std::move(why); });
}

void FakeFleet::set_memory_used(std::uint32_t index, std::int64_t bytes) {
  state_->change(index, [&](State::Gpu& gpu) {
    const auto* total = std::get_if<std::int64_t>(&gpu.values[Metric::memory_total]);
    if (total == nullptr) return;  // memory that cannot be read cannot be used either
    const std::int64_t used = std::clamp(bytes, std::int64_t{0}, std::max(*total, std::int64_t{0}));
    gpu.values[Metric::memory_used] = used;
    gpu.values[Metric::memory_free] = *total - used;
  });
}

void FakeFleet::set_temperature(std::uint32_t index, std::int64_t celsius) {
  set_number(index, Metric::temperature_core, celsius);
}

void FakeFleet::inject_ecc_error(std::uint32_t index) {
  state_->change(index, [&](State::Gpu& gpu) {
    for (const Metric metric :
         {Metric::ecc_uncorrected_volatile, Metric::ecc_uncorrected_aggregate}) {
      auto* count = std::get_if<std::int64_t>(&gpu.values[metric]);
      if (count != nullptr && *count < std::numeric_limits<std::int64_t>::max()) ++*count;
    }
  });
}

void FakeFleet::remove_gpu(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.removed = true; });
}

void FakeFleet::replug_gpu(std::uint32_t index, std::uint32_t new_index) {
  const MutexLock lock(state_->mutex);
  State::Gpu* gpu = state_->at(index);
  const bool is_free = index == new_index || state_->at(new_index) == nullptr;
  if (gpu == nullptr || !gpu->removed || !is_free) return;
  gpu->removed = gpu->blocked = false;
  gpu->info.index = new_index;
  std::ranges::sort(state_->gpus, {}, [](const State::Gpu& one) { return one.info.index; });
  state_->changed.notify_all();
}

void FakeFleet::raise_event(std::uint32_t index, EventKind kind, std::optional<std::uint32_t> xid) {
  const MutexLock lock(state_->mutex);
  const State::Gpu* gpu = state_->at(index);
  if (gpu == nullptr) return;
  DeviceEvent event{gpu->info.id, kind, EventSource::driver, BootClock::now(), xid, {}, ""};
  state_->events.push_back(std::move(event));
  if (state_->events.size() > State::kMaxKeptEvents) state_->events.pop_front();
  ++state_->event_count;
  state_->changed.notify_all();
}

void FakeFleet::block(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.blocked = true; });
}

void FakeFleet::unblock(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.blocked = false; });
}

Inventory FakeFleet::inventory() const {
  const MutexLock lock(state_->mutex);
  Inventory inventory{{"999.99.99", "99.9", "99.999.99", "fake"}, {}};
  for (const State::Gpu& gpu : state_->gpus) {
    if (!gpu.removed) inventory.devices.push_back(gpu.info);
  }
  return inventory;
}

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeFleet fleet) : fleet_(std::move(fleet)) {
    const MutexLock lock(fleet_.state_->mutex);
    events_delivered_ = fleet_.state_->event_count;
  }

  Result<DriverSession> start() override {
    const DriverInfo driver = fleet_.inventory().driver;
    FakeFleet::State& state = *fleet_.state_;
    const MutexLock lock(state.mutex);
    if (state.no_driver) return *state.no_driver;
    return DriverSession{driver, state.gpus.empty() ? 0 : state.gpus.back().info.index + 1};
  }

  DeviceInfo open(std::uint32_t index) override {
    FakeFleet::State& state = *fleet_.state_;
    const MutexLock lock(state.mutex);
    const FakeFleet::State::Gpu* gpu = state.at(index);
    if (gpu == nullptr) return closed_device(index, lost_gpu());
    gpu = state.wait_unblocked(DeviceId(gpu->info.id));
    DeviceInfo info = gpu->info;
    if (gpu->removed) info.fault = lost_gpu();
    return info;
  }

  Sample read(const DeviceId& id, ProbeSet probes) override {
    FakeFleet::State& state = *fleet_.state_;
    const MutexLock lock(state.mutex);
    const TimePoint taken = BootClock::now();
    const FakeFleet::State::Gpu* gpu = state.wait_unblocked(id);
    if (gpu == nullptr) return missing_sample(probes, {MissingReason::failed, "Not Found"}, taken);
    if (gpu->removed) return missing_sample(probes, lost_gpu(), taken);
    Sample sample = missing_sample(probes, {MissingReason::not_supported, ""}, taken);
    for (const auto& [metric, value] : gpu->values) {
      if (sample.find(metric) != nullptr) sample.set({metric, 0, taken, value});
    }
    return sample;
  }

  Result<void> check_control() override {
    FakeFleet::State& state = *fleet_.state_;
    const MutexLock lock(state.mutex);
    return state.control_denied ? Result<void>(*state.control_denied) : Result<void>();
  }

  Result<SettingState> read_setting(const DeviceId& id, SettingKind kind) override {
    return fleet_.state_->on_gpu(
        id, [&](FakeFleet::State::Gpu& gpu) { return gpu.settings.read_setting(kind); });
  }
  Result<void> apply(const DeviceId& id, const Setting& setting) override {
    return fleet_.state_->write(id, setting);
  }
  Result<void> clear_ecc(const DeviceId& id, EccCounter counter) override {
    return fleet_.state_->write(id, counter);
  }
  Result<std::int64_t> total_energy(const DeviceId& id) override {
    return fleet_.state_->on_gpu(id, [](FakeFleet::State::Gpu& gpu) { return gpu.energy(); });
  }

  Result<std::optional<DeviceEvent>> next_event(Duration timeout) override {
    FakeFleet::State& state = *fleet_.state_;
    const MutexLock lock(state.mutex);
    state.changed.wait_for(state.mutex, timeout, [&]() REQUIRES(state.mutex) {
      return events_delivered_ < state.event_count;
    });
    if (events_delivered_ == state.event_count) return std::optional<DeviceEvent>();
    const std::size_t behind = static_cast<std::size_t>(state.event_count - events_delivered_);
    const std::size_t kept = std::min(behind, state.events.size());
    events_delivered_ = state.event_count - kept + 1;
    return std::optional(state.events[state.events.size() - kept]);
  }

 private:
  FakeFleet fleet_;
  std::uint64_t events_delivered_ = 0;
};

std::unique_ptr<Backend> FakeFleet::backend() const {
  return std::make_unique<FakeBackend>(*this);
}

std::vector<GpuMetrics> FakeFleet::collect_metrics() const {
  std::vector<GpuMetrics> metrics;
  const auto backend = this->backend();
  for (const DeviceInfo& info : inventory().devices) {
    const DeviceState state =
        device_state(info, backend->read(info.id, kMetricsProbes), kMetricsProbes, {});
    if (state.condition == DeviceCondition::responsive) metrics.push_back(metrics_of(state));
  }
  return metrics;
}

}  // namespace gpuyard::fakes
