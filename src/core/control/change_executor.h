// Carries out one change of one GPU: the steps from the first read of the driver to the result.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "core/control/audit.h"
#include "core/control/command_port.h"
#include "core/control/gpu_settings.h"
#include "core/control/queued_change.h"
#include "gpu/device/command.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

// The services that an executor may use; the GPU's queue implements them. A callback never runs
// inside the call it was given to, except where it says so. None of a command runs after the change
// has ended; those of the storage and of a reset may.
class ExecutorContext {
 public:
  virtual ~ExecutorContext() = default;
  virtual Loop& loop() = 0;
  virtual const std::string& boot_id() const = 0;
  virtual const DeviceInfo& gpu() const = 0;
  virtual GpuSettings& settings() = 0;

  virtual void send_command(Command, std::function<void(const CommandReply&)> on_done) = 0;
  // Queues a ReconcileSetting after GpuQueue::kReconcileDelay.
  virtual void reconcile_later(SettingKind) = 0;
  virtual void reset_gpu(bool dry_run, std::function<void(const Result<void>&)> on_done) = 0;
  // Ends the executor, which is gone when this returns. Without a ChangeResult there is no result
  // to report.
  virtual void finish(std::optional<ChangeResult>) = 0;
};

// Thread: io.
class ChangeExecutor {
 public:
  virtual ~ChangeExecutor() = default;
  virtual void start() = 0;
};

// The context and the change outlive the executor.
std::unique_ptr<ChangeExecutor> make_executor(ExecutorContext&, const QueuedChange&);

}  // namespace gpuyard::control
