// Carries out one change of one GPU: the steps from the first look at the driver to the result.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "core/control/audit.h"
#include "core/control/change_request.h"
#include "core/control/managed_setting.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

// Sends commands to the driver. Lives on the io thread.
class Commander {
 public:
  virtual ~Commander() = default;
  // Returns false if the process for such a command is not there, or is too busy: the driver-host
  // for one that reads, the setter for a change. Else the answer goes to Control::on_reply(), or
  // Control::on_host_down() or on_setter_down() is called because there will be none.
  virtual bool command(const CommandRequest&) = 0;
  // Why no GPU can be changed at present, if that is known.
  virtual std::optional<Error> obstacle() const { return std::nullopt; }
  // Describes what is wrong with the changing of GPUs, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  // Errc::conflict: processes use the GPU.
  virtual Result<void> may_reset(const DeviceInfo&) = 0;
  // Ends the driver-host, resets the GPU, and starts a new driver-host, whose GPUs Control is told.
  // May take long; the answer never comes inside the call.
  virtual void reset(const DeviceInfo&, std::function<void(const Result<void>&)> done) = 0;
};

// How a command ended.
struct Heard {
  CommandReply reply;
  // False: the driver-host or the setter went down meanwhile, and the value may have been written
  // or not.
  bool certain = true;

  std::optional<Error> error() const {
    return reply.failure ? std::optional(reply.failure->error()) : std::nullopt;
  }
};

// The services that a plan may use; the GPU's queue implements them. A callback never runs inside
// the call it was given to, and none runs after the plan is over.
class ExecutorContext {
 public:
  virtual ~ExecutorContext() = default;
  virtual Loop& loop() = 0;
  virtual const std::string& boot_id() const = 0;
  virtual const DeviceInfo& gpu() const = 0;
  virtual const Holding* holding(SettingKind) const = 0;

  virtual void command(Command, std::function<void(const Heard&)> then) = 0;
  // Keeps the holding on the disk, and then in memory; in neither if the disk fails.
  virtual void hold(const Holding&, std::function<void(const Result<void>&)> then) = 0;
  // Keeps the holding in memory at once, and on the disk as soon as possible: for a change that has
  // happened already.
  virtual void note(const Holding&, When = When::now) = 0;
  // Removes a holding in the same way.
  virtual void forget(SettingKind) = 0;
  // Queues a Settle after GpuQueue::kTryAgain.
  virtual void settle_later(SettingKind) = 0;
  virtual void reset(bool dry_run, std::function<void(const Result<void>&)> then) = 0;
  // Ends the plan, which is gone when this returns. Without a Change there is no result to tell.
  virtual void over(std::optional<Change>) = 0;
};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual void begin() = 0;
};

// The context and the change outlive the plan.
std::unique_ptr<Plan> make_plan(ExecutorContext&, const QueuedChange&);

// A reset of one GPU: no other GPU has a command under way while it lasts. Lives on the io thread.
class Resetting {
 public:
  using Then = std::function<void(const Result<void>&)>;

  Resetting(Loop& loop, Commander& commander) : loop_(loop), commander_(commander) {}

  // True: no other plan may begin.
  bool under_way() const { return state_ != State::none; }

  // Resets the GPU once `quiet` says that no other GPU has a command under way. The answer never
  // comes inside the call.
  void begin(const DeviceInfo&, bool dry_run, std::function<bool()> quiet, Then);
  // Asks `quiet` again: a command has ended.
  void go_on();
  // Begins no more resets.
  void close() { closed_ = true; }

  // How long a reset waits for the commands of other GPUs to end.
  static constexpr Duration kPatience = std::chrono::seconds(5);

 private:
  enum class State : std::uint8_t { none, waiting, resetting };

  void end(const Result<void>&);
  void answer_soon(Then, Result<void>);

  Loop& loop_;
  Commander& commander_;
  State state_ = State::none;
  bool closed_ = false;
  DeviceInfo gpu_;
  std::function<bool()> quiet_;
  Then then_;
  Subscription patience_;
  Subscription soon_;
  Lifetime here_;
};

}  // namespace gpuyard::control
