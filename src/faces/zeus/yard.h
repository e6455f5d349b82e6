// What the facade asks of the rest of the house. Everything on the io thread.
#pragma once

#include <sys/types.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "base/loop.h"
#include "base/result.h"
#include "device/setting.h"
#include "device/snapshot.h"
#include "http/message.h"

namespace gpuyard::zeus {

// The GPUs' readings.
class Gpus {
 public:
  virtual ~Gpus() = default;
  // The newest snapshot; never null.
  virtual std::shared_ptr<const Snapshot> latest() const = 0;
  // Reads `probes` of every GPU now. Answers in any case, and soon.
  virtual void fresh(ProbeSet probes, std::function<void(const Snapshot&)> done) = 0;
  // Hears the power of one GPU every `period`, or why there is none.
  virtual Subscription listen_power(const DeviceId&, Duration period,
                                    std::function<void(const Reading&)> heard) = 0;
};

// What a client wants of one setting of some GPUs.
struct Order {
  uid_t uid = 0;  // whose it is; what the same user set before is replaced
  std::vector<DeviceInfo> gpus;
  SettingKind kind{};
  std::optional<Setting> setting;  // nothing: what this user set is taken back
  bool wait = true;                // false: the answer is that it is queued
  std::uint64_t request = 0;
  TimePoint received;  // when the request came
};

struct Outcome {
  std::uint32_t index = 0;
  Result<void> done;
};

// The hand that sets: it checks, owns, keeps and logs.
class Setter {
 public:
  virtual ~Setter() = default;
  // Errc::denied, naming the switch, where it is off.
  virtual Result<void> enabled() const = 0;
  // Errc::denied, saying what is missing, for whoever may not set anything. Asked before an order.
  virtual Result<void> permits(const http::Request&) = 0;
  // Answers once, with an outcome for each GPU, in any case.
  virtual void order(Order, std::function<void(const std::vector<Outcome>&)> done) = 0;
};

}  // namespace gpuyard::zeus
