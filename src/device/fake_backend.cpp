#include "device/fake_backend.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "device/catalog.h"
#include "device/error.h"

namespace gpuyard {

struct FakeFleet::State {
  struct Gpu {
    DeviceInfo info;
    std::map<Metric, std::variant<Missing, std::int64_t, std::string>> values;
    bool removed = false;
    bool blocked = false;
  };

  mutable std::mutex mutex;
  std::condition_variable unblocked;
  std::optional<Error> no_driver;
  std::vector<Gpu> gpus;

  template <class Change>
  void change(std::uint32_t index, Change&& change) {
    const std::lock_guard lock(mutex);
    if (index < gpus.size() && !gpus[index].removed) change(gpus[index]);
    unblocked.notify_all();
  }
};

FakeFleet FakeFleet::with_healthy_gpus(std::uint32_t count, std::int64_t memory) {
  auto state = std::make_shared<State>();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string uuid = fmt::format("GPU-00000000-0000-4000-8000-{:012x}", i);
    State::Gpu gpu{{uuid, i, uuid, fmt::format("0000:{:02x}:00.0", i + 1), "Fake GPU", {}}, {}};
    gpu.values = {{Metric::memory_total, memory},
                  {Metric::memory_free, memory},
                  {Metric::memory_used, std::int64_t{0}},
                  {Metric::temperature_core, std::int64_t{40}},
                  {Metric::utilization_gpu, std::int64_t{0}}};
    state->gpus.push_back(std::move(gpu));
  }
  return FakeFleet(std::move(state));
}

FakeFleet FakeFleet::without_driver(Error why) {
  auto state = std::make_shared<State>();
  state->no_driver = std::move(why);
  return FakeFleet(std::move(state));
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
    const std::int64_t used = std::clamp(bytes, std::int64_t{0}, *total);
    gpu.values[Metric::memory_used] = used;
    gpu.values[Metric::memory_free] = *total - used;
  });
}

void FakeFleet::set_temperature(std::uint32_t index, std::int64_t celsius) {
  set_number(index, Metric::temperature_core, celsius);
}

void FakeFleet::remove_gpu(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.removed = true; });
}

void FakeFleet::block(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.blocked = true; });
}

void FakeFleet::unblock(std::uint32_t index) {
  state_->change(index, [](State::Gpu& gpu) { gpu.blocked = false; });
}

Fleet FakeFleet::fleet() const {
  const std::lock_guard lock(state_->mutex);
  Fleet fleet{{"999.99.99", "99.9", "99.999.99", "fake"}, {}};
  for (const State::Gpu& gpu : state_->gpus) {
    if (!gpu.removed) fleet.devices.push_back(gpu.info);
  }
  return fleet;
}

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeFleet fleet) : fleet_(std::move(fleet)) {}

  Result<DriverSession> start() override {
    const DriverInfo driver = fleet_.fleet().driver;
    const std::lock_guard lock(fleet_.state_->mutex);
    if (fleet_.state_->no_driver) return *fleet_.state_->no_driver;
    return DriverSession{driver, static_cast<std::uint32_t>(fleet_.state_->gpus.size())};
  }

  DeviceInfo open(std::uint32_t index) override {
    FakeFleet::State& state = *fleet_.state_;
    std::unique_lock lock(state.mutex);
    FakeFleet::State::Gpu& gpu = state.gpus.at(index);
    state.unblocked.wait(lock, [&] { return !gpu.blocked || gpu.removed; });
    DeviceInfo info = gpu.info;
    if (gpu.removed) info.fault = Missing{MissingReason::device_lost, "GPU is lost"};
    return info;
  }

  Sample read(const DeviceId& id, ProbeSet probes) override {
    FakeFleet::State& state = *fleet_.state_;
    std::unique_lock lock(state.mutex);
    const auto gpu = std::find_if(state.gpus.begin(), state.gpus.end(),
                                  [&](const auto& candidate) { return candidate.info.id == id; });
    if (gpu == state.gpus.end()) {
      return missing_sample(probes, {MissingReason::failed, "Not Found"}, BootClock::now());
    }
    const TimePoint taken = BootClock::now();
    state.unblocked.wait(lock, [&] { return !gpu->blocked || gpu->removed; });
    if (gpu->removed) {
      return missing_sample(probes, {MissingReason::device_lost, "GPU is lost"}, taken);
    }
    Sample sample = missing_sample(probes, {MissingReason::not_supported, ""}, taken);
    for (const auto& [metric, value] : gpu->values) {
      if (sample.find(metric) != nullptr) sample.set({metric, 0, taken, value});
    }
    return sample;
  }

 private:
  FakeFleet fleet_;
};

std::unique_ptr<Backend> FakeFleet::backend() const {
  return std::make_unique<FakeBackend>(*this);
}

}  // namespace gpuyard
