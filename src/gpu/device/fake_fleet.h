// The state that copies of one fake fleet share: its GPUs under one lock. Only for the files of the
// fake.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "base/try.h"
#include "gpu/device/command.h"
#include "gpu/device/fake_backend.h"
#include "gpu/device/setting.h"

namespace gpuyard::fakes {

// The settings of one GPU that exists only in memory.
class FakeSettings {
 public:
  // Starts with the settings of a data centre GPU: 300 W of 100 to 400 W, GPU clocks that lock
  // within 210 to 1980 MHz, memory clocks within 1593 to 2619 MHz, no persistence, ECC on.
  FakeSettings();

  // Errc::unsupported: the GPU has no such setting. Errc::invalid: out of range, in a driver's few
  // words.
  Result<SettingState> read_setting(SettingKind) const;
  Result<void> apply(const Setting&);

  void set(SettingKind kind, const SettingState& state) { states_[kind] = state; }
  void remove(SettingKind kind) { states_.erase(kind); }
  // Makes writes fail with this error until it is called with nothing.
  void fail_writes(SettingKind, std::optional<Error> why);

 private:
  std::map<SettingKind, SettingState> states_;
  std::map<SettingKind, Error> faults_;
};

struct FakeFleet::State {
  struct Gpu {
    DeviceInfo info;
    std::map<Metric, std::variant<Missing, std::int64_t, std::string>> values;
    FakeSettings settings;
    bool removed = false;
    bool blocked = false;

    Result<std::int64_t> energy() const;
    Result<void> change(const Setting&);
    Result<void> change(EccCounter);
  };

  // Returns the GPU at an index, present or removed: an index belongs to one GPU until that GPU
  // moves to another index.
  Gpu* at(std::uint32_t index) REQUIRES(mutex) {
    const auto found =
        std::ranges::find(gpus, index, [](const Gpu& gpu) { return gpu.info.index; });
    return found != gpus.end() ? &*found : nullptr;
  }

  template <class Change>
  void change(std::uint32_t index, Change&& change) {
    const MutexLock lock(mutex);
    Gpu* gpu = at(index);
    if (gpu != nullptr && !gpu->removed) change(*gpu);
    changed.notify_all();
  }

  // Returns nullptr if there is no such GPU (any more).
  Gpu* wait_unblocked(const DeviceId& id) REQUIRES(mutex) {
    Gpu* gpu = nullptr;
    changed.wait(mutex, [&]() REQUIRES(mutex) {
      const auto found = std::ranges::find(gpus, id, [](const Gpu& one) { return one.info.id; });
      gpu = found != gpus.end() ? &*found : nullptr;
      return gpu == nullptr || gpu->removed || !gpu->blocked;
    });
    return gpu;
  }

  // Returns the GPU once its calls return; otherwise the error of a GPU that is lost or was never
  // there.
  Result<Gpu*> wait_present(const DeviceId& id) REQUIRES(mutex) {
    Gpu* gpu = wait_unblocked(id);
    if (gpu == nullptr) return Error{Errc::not_found, "Not Found"};
    if (gpu->removed) return Error{Errc::device_lost, "GPU is lost"};
    return gpu;
  }

  // Returns `use(gpu)`, or the error of wait_present().
  template <class Use>
  auto on_gpu(const DeviceId& id, Use&& use) -> decltype(use(std::declval<Gpu&>())) {
    const MutexLock lock(mutex);
    const auto gpu = GPUYARD_TRY(wait_present(id));
    return use(*gpu);
  }

  // Records a write to a GPU that is present, whether or not it succeeds.
  template <class What>
  Result<void> write(const DeviceId& id, const What& what) {
    const MutexLock lock(mutex);
    const auto gpu = GPUYARD_TRY(wait_present(id));
    auto done = gpu->change(what);
    writes.push_back(
        {gpu->info.index, what, done ? std::nullopt : std::optional(done.error().code)});
    if (writes.size() > kMaxKeptWrites) writes.pop_front();
    return done;
  }

  Mutex mutex;
  ConditionVariable changed;
  std::optional<Error> no_driver GUARDED_BY(mutex);
  std::vector<Gpu> gpus GUARDED_BY(mutex);  // by index
  std::uint32_t made GUARDED_BY(mutex) = 0;
  std::deque<DeviceEvent> events GUARDED_BY(mutex);  // the last kMaxKeptEvents
  std::uint64_t event_count GUARDED_BY(mutex) = 0;
  std::optional<Error> control_denied GUARDED_BY(mutex);
  std::deque<FakeWrite> writes GUARDED_BY(mutex);

  static constexpr std::size_t kMaxKeptEvents = 4096;
};

}  // namespace gpuyard::fakes
