// The facade's interfaces to the rest of gpuyard. Thread: io.
#pragma once

#include <sys/types.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "base/loop.h"
#include "base/result.h"
#include "gpu/device/setting.h"
#include "gpu/device/snapshot.h"
#include "io/http/message.h"

namespace gpuyard::zeus {

// The GPUs' readings.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  // The newest snapshot; never null.
  virtual std::shared_ptr<const Snapshot> latest() const = 0;
  // Reads `probes` of every GPU now. Answers soon, in any case.
  virtual void read_fresh(ProbeSet probes, std::function<void(const Snapshot&)> on_done) = 0;
  // Calls `on_reading` every `period` with the power of one GPU, or with the reason why there is
  // none.
  virtual Subscription subscribe_power(const DeviceId&, Duration period,
                                       std::function<void(const Reading&)> on_reading) = 0;
};

// A client's request to change one setting of some GPUs.
struct SettingOrder {
  uid_t uid = 0;  // the owner; replaces what this user set before
  std::vector<DeviceInfo> gpus;
  SettingKind kind{};
  std::optional<Setting> setting;  // nothing: takes back what this user set
  bool wait = true;                // false: answer as soon as it is queued
  std::uint64_t request = 0;
  TimePoint received;  // when the request came
};

struct GpuOutcome {
  std::uint32_t index = 0;
  Result<void> result;
};

// Changes settings: checks them, keeps who owns them, stores and logs them.
class SettingWriter {
 public:
  virtual ~SettingWriter() = default;
  // Errc::denied, naming the switch, if control is switched off.
  virtual Result<void> check_enabled() const = 0;
  // Errc::denied, saying what is missing, if the client may not change settings. Called before
  // submit().
  virtual Result<void> check_access(const http::Request&) = 0;
  // Calls `on_done` once, in any case, with an outcome for each GPU.
  virtual void submit(SettingOrder,
                      std::function<void(const std::vector<GpuOutcome>&)> on_done) = 0;
};

}  // namespace gpuyard::zeus
