// Carries out one change of one GPU: the steps from the first read of the driver to the result.
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
class CommandPort {
 public:
  virtual ~CommandPort() = default;
  // Returns false if the process for such a command is not there, or is too busy: the driver-host
  // for one that reads, the setter for a change. Else the reply goes to
  // SettingController::on_reply(), or on_host_down() or on_setter_down() is called because there
  // will be none.
  virtual bool send(const CommandRequest&) = 0;
  // Returns why no GPU can be changed at present, if that is known.
  virtual std::optional<Error> change_error() const { return std::nullopt; }
  // Describes what is wrong with the changing of GPUs, for people.
  virtual std::vector<std::string> notes() const { return {}; }
  // Errc::conflict: processes use the GPU.
  virtual Result<void> check_reset(const DeviceInfo&) = 0;
  // Ends the driver-host, resets the GPU, and starts a new driver-host, whose GPUs go to
  // SettingController::on_inventory(). May take long; the result never comes inside the call.
  virtual void reset_gpu(const DeviceInfo&, std::function<void(const Result<void>&)> on_done) = 0;
};

// The completion of a command.
struct CommandCompletion {
  CommandReply reply;
  // False: the driver-host or the setter went down meanwhile, and the value may have been written
  // or not.
  bool outcome_known = true;

  std::optional<Error> error() const {
    return reply.failure ? std::optional(reply.failure->error()) : std::nullopt;
  }
};

// The services that an executor may use; the GPU's queue implements them. A callback never runs
// inside the call it was given to, and none runs after the change has ended.
class ExecutorContext {
 public:
  virtual ~ExecutorContext() = default;
  virtual Loop& loop() = 0;
  virtual const std::string& boot_id() const = 0;
  virtual const DeviceInfo& gpu() const = 0;
  virtual const ManagedSetting* managed_setting(SettingKind) const = 0;

  virtual void send_command(Command, std::function<void(const CommandCompletion&)> on_done) = 0;
  // Saves the setting on the disk, and then in memory; in neither if the disk fails.
  virtual void persist(const ManagedSetting&, std::function<void(const Result<void>&)> on_done) = 0;
  // Saves the setting in memory at once, and on the disk as soon as possible: for a change that has
  // happened already.
  virtual void record(const ManagedSetting&, CommitTiming = CommitTiming::now) = 0;
  // Removes a managed setting in the same way.
  virtual void remove(SettingKind) = 0;
  // Queues a ReconcileSetting after GpuQueue::kReconcileDelay.
  virtual void reconcile_later(SettingKind) = 0;
  virtual void reset_gpu(bool dry_run, std::function<void(const Result<void>&)> on_done) = 0;
  // Ends the executor, which is gone when this returns. Without a ChangeResult there is no result
  // to report.
  virtual void finish(std::optional<ChangeResult>) = 0;
};

class ChangeExecutor {
 public:
  virtual ~ChangeExecutor() = default;
  virtual void start() = 0;
};

// The context and the change outlive the executor.
std::unique_ptr<ChangeExecutor> make_executor(ExecutorContext&, const QueuedChange&);

// A reset of one GPU: no other GPU has a command in progress while it lasts. Lives on the io
// thread.
class GpuResetter {
 public:
  using OnDone = std::function<void(const Result<void>&)>;

  GpuResetter(Loop& loop, CommandPort& command_port) : loop_(loop), command_port_(command_port) {}

  // True: no other change may begin.
  bool is_active() const { return state_ != State::none; }

  // Resets the GPU once `others_idle` says that no other GPU has a command in progress. The result
  // never comes inside the call.
  void begin(const DeviceInfo&, bool dry_run, std::function<bool()> others_idle, OnDone);
  // Calls `others_idle` again: a command has ended.
  void retry();
  // Begins no more resets.
  void close() { closed_ = true; }

  // A reset waits this long for the commands of other GPUs to end.
  static constexpr Duration kOthersIdleTimeout = std::chrono::seconds(5);

 private:
  enum class State : std::uint8_t { none, waiting, resetting };

  void finish(const Result<void>&);
  void post_result(OnDone, Result<void>);

  Loop& loop_;
  CommandPort& command_port_;
  State state_ = State::none;
  bool closed_ = false;
  DeviceInfo gpu_;
  std::function<bool()> others_idle_;
  OnDone on_done_;
  Subscription timeout_timer_;
  Subscription retry_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::control
