#include "faces/recording/replay_backend.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/try.h"
#include "gpu/device/catalog.h"
#include "gpu/device/plausible.h"

namespace gpuyard::recording {
namespace {

DeviceInfo info_of(const PlayedGpu& gpu, std::uint32_t index) {
  DeviceInfo info;
  info.id = gpu.identity.uuid.empty() ? fmt::format("index:{}", index) : gpu.identity.uuid;
  info.index = index;
  info.uuid = gpu.identity.uuid;
  info.pci_address = gpu.identity.pci_address;
  info.name = gpu.identity.name;
  return info;
}

Missing missing_reason(const PlayedGpu& gpu) {
  if (!gpu.present) {
    return {MissingReason::device_lost, "not present when this was recorded"};
  }
  if (gpu.condition == DeviceCondition::unavailable) return {MissingReason::device_lost, gpu.why};
  return {MissingReason::timed_out, gpu.why};
}

Sample sample_of(const PlayedGpu& gpu, ProbeSet probes, TimePoint now) {
  Sample out = missing_sample(probes, {MissingReason::not_ready, "not in the recording"}, now);
  probes.each([&](Probe probe) {
    for (const Metric metric : row_of(probe).fills) {
      for (Reading reading : gpu.sample.all(metric)) {
        reading.taken = now;
        out.set(reject_implausible(std::move(reading)));
      }
    }
    if (probe == Probe::processes && gpu.sample.processes()) {
      out.set(ProcessList{now, gpu.sample.processes()->value});
    }
  });
  return out;
}

Sample read_gpu(const PlayedGpu& gpu, ProbeSet probes, TimePoint now) {
  const bool answers = gpu.present && gpu.condition == DeviceCondition::responsive;
  return answers ? sample_of(gpu, probes, now) : missing_sample(probes, missing_reason(gpu), now);
}

}  // namespace

std::vector<DeviceState> states_of(const Player& player, TimePoint now) {
  std::vector<DeviceState> states;
  for (const PlayedGpu& gpu : player.gpus()) {
    const auto index = static_cast<std::uint32_t>(states.size());
    const ProbeSet all = ProbeSet::all();
    states.push_back(device_state(info_of(gpu, index), read_gpu(gpu, all, now), all, now));
  }
  return states;
}

Result<std::unique_ptr<Backend>> open_replay(const Replay& replay) {
  auto player = GPUYARD_TRY(Player::open(replay.path));
  if (replay.from > player.length()) {
    return Error{Errc::invalid,
                 fmt::format("{} is {:.1f} s long; it cannot start at {:.1f} s", replay.path,
                             std::chrono::duration<double>(player.length()).count(),
                             std::chrono::duration<double>(replay.from).count())};
  }
  return std::unique_ptr<Backend>(std::make_unique<ReplayBackend>(std::move(player), replay));
}

Result<DriverSession> ReplayBackend::start() {
  const MutexLock lock(mutex_);
  DriverSession session;
  const protocol::DriverInfo& driver = player_.header().driver;
  session.driver.driver_version = driver.driver_version;
  session.driver.cuda_driver_version = driver.cuda_driver_version;
  session.driver.nvml_version = driver.nvml_version;
  session.driver.library = replay_.path;
  session.driver.simulated = true;  // the readings are from the past
  session.gpu_count = static_cast<std::uint32_t>(player_.gpus().size());
  session.own_time = true;
  return session;
}

DeviceInfo ReplayBackend::open(std::uint32_t index) {
  const MutexLock lock(mutex_);
  return info_of(player_.gpus().at(index), index);
}

Sample ReplayBackend::read(const DeviceId& id, ProbeSet probes) {
  const MutexLock lock(mutex_);
  return read_at(id, probes, BootClock::now());
}

Sample ReplayBackend::read_at(const DeviceId& id, ProbeSet probes, TimePoint now) {
  const std::chrono::duration<double> since = now - replay_.began_at;
  const std::chrono::duration<double> played = replay_.from + since * replay_.speed;
  // In seconds, because months at the highest speed overflow a Duration.
  if (played > player_.length() + kFastInterval) {
    return missing_sample(probes, {MissingReason::failed, "the recording has ended"}, now);
  }
  const auto position = std::chrono::duration_cast<Duration>(played);
  if (const auto moved = player_.seek(position); !moved) {
    return missing_sample(probes, {MissingReason::failed, moved.error().text()}, now);
  }
  const auto& gpus = player_.gpus();
  for (std::uint32_t index = 0; index < gpus.size(); ++index) {
    const PlayedGpu& gpu = gpus[index];
    if (info_of(gpu, index).id == id) return read_gpu(gpu, probes, now);
  }
  return missing_sample(probes, {MissingReason::device_lost, "this GPU was not recorded"}, now);
}

}  // namespace gpuyard::recording
