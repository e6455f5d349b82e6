// A recording as a driver: whoever reads GPUs through it sees what was recorded, at the speed asked
// for.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "device/backend.h"
#include "recording/player.h"

namespace gpuyard::recording {

inline constexpr double kSlowest = 0.01;
inline constexpr double kFastest = 1000;

struct Replay {
  std::string path;
  Duration from{0};  // where in the recording it begins
  double speed = 1;
  TimePoint began{};  // the moment at which `from` is played: a new session goes on, not back
};

// Errc::invalid where `from` lies behind the recording's end.
Result<std::unique_ptr<Backend>> open_replay(const Replay&);

class ReplayBackend final : public Backend {
 public:
  ReplayBackend(Player player, Replay replay)
      : player_(std::move(player)), replay_(std::move(replay)) {}

  Result<DriverSession> start() override;
  DeviceInfo open(std::uint32_t index) override;
  Sample read(const DeviceId&, ProbeSet) override;

 private:
  Sample read_at(const DeviceId&, ProbeSet, TimePoint now);

  std::mutex mutex_;  // GPUs are read by threads of their own
  Player player_;
  const Replay replay_;
};

}  // namespace gpuyard::recording
