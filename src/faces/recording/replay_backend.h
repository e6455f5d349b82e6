// A recording as a driver: GPUs that are read through it have the recorded readings, at the chosen
// speed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "faces/recording/player.h"
#include "gpu/device/backend.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::recording {

inline constexpr double kMinSpeed = 0.01;
inline constexpr double kMaxSpeed = 1000;

struct Replay {
  std::string path;
  Duration from{0};  // position in the recording to begin at
  double speed = 1;
  TimePoint began_at{};  // when `from` is played; a new session continues from there
};

// Errc::invalid if `from` is after the recording's end.
Result<std::unique_ptr<Backend>> open_replay(const Replay&);

// The GPUs at the player's position, as if they had been read just `now`.
std::vector<DeviceState> states_of(const Player&, TimePoint now);

// Thread: any.
class ReplayBackend final : public Backend {
 public:
  ReplayBackend(Player player, Replay replay)
      : player_(std::move(player)), replay_(std::move(replay)) {}

  Result<DriverSession> start() override;
  DeviceInfo open(std::uint32_t index) override;
  Sample read(const DeviceId&, ProbeSet) override;

 private:
  Sample read_at(const DeviceId&, ProbeSet, TimePoint now) REQUIRES(mutex_);

  Mutex mutex_;  // each GPU is read by its own thread
  Player player_ GUARDED_BY(mutex_);
  const Replay replay_;
};

}  // namespace gpuyard::recording
