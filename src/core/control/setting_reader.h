// Reads settings from the driver for callers outside the queues of changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/limits.h"
#include "core/control/gpu_queue.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

using OnSettingRead = std::function<void(const Result<SettingState>&)>;

// Thread: io.
class SettingReader {
 public:
  // Callers that share one reply. More than one server has connections, and each user has a quota
  // of these.
  static constexpr std::size_t kMaxCallers = 4 * (limits::kMaxConnections + limits::kReservedSlots);

  // The environment outlives it.
  explicit SettingReader(QueueEnvironment& environment) : environment_(environment) {}

  void read(const DeviceId&, SettingKind, OnSettingRead);
  // Returns whether the reply was to a read of this.
  bool on_reply(const CommandReply&);
  void on_host_down();

 private:
  struct PendingRead {
    DeviceId gpu;
    SettingKind kind{};
    std::vector<OnSettingRead> callbacks;
  };

  QueueEnvironment& environment_;
  std::map<std::uint64_t, PendingRead> pending_reads_;
};

}  // namespace gpuyard::control
