// The queue of changes of one GPU. One change is carried out at a time, by an executor, strictly in
// the order in which they came.
//
// Thread: io.
#pragma once

#include <deque>
#include <memory>
#include <set>

#include "base/limits.h"
#include "core/control/change_executor.h"
#include "core/control/command_port.h"

namespace gpuyard::control {

// The parts that all queues share.
struct QueueEnvironment {
  Loop& loop;
  CommandPort& command_port;
  ControlStorage& storage;
  std::string boot_id;
  std::uint64_t last_command_id = 0;
  // Called before each change begins; false: it stays in the queue, and start_next() asks again.
  std::function<bool(const QueuedChange&)> try_start;
  // Called at the end of each change, also of a refused one. Without a ChangeResult there is no
  // result.
  std::function<void(const DeviceInfo&, const QueuedChange&, const std::optional<ChangeResult>&,
                     TimePoint began)>
      on_finished;
  // Resets a GPU, when no other GPU has a change in progress.
  std::function<void(const DeviceInfo&, bool dry_run, std::function<void(const Result<void>&)>)>
      reset_gpu;
};

class GpuQueue final : private ExecutorContext {
 public:
  // The environment outlives its queues.
  GpuQueue(QueueEnvironment& environment, DeviceInfo gpu)
      : environment_(environment),
        gpu_(std::move(gpu)),
        settings_(environment.loop, environment.storage, gpu_.id) {}
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  GpuSettings& settings() override { return settings_; }
  const DeviceInfo& device() const { return gpu_; }
  void update_device(DeviceInfo gpu) { gpu_ = std::move(gpu); }

  // Queues a change. Refuses it at once if kMaxQueuedChanges wait already (busy), or if the queue
  // is closed (unavailable).
  void submit(QueuedChange);
  // Queues a task of the daemon itself, unless the same task waits already.
  void enqueue_internal(ChangeTask);
  // Refuses the waiting changes whose right has ended.
  void refuse_unauthorized();
  // Begins the next waiting change, if one may begin now.
  void start_next();
  bool is_idle() const { return executor_ == nullptr; }
  bool empty() const { return is_idle() && queue_.empty(); }

  void on_reply(const CommandReply&);
  void on_host_down() { fail_sent_command(false); }
  void on_setter_down() { fail_sent_command(true); }
  // Retries the settings that could not be written.
  void on_setter_back();
  // The driver is back, and this GPU is open: checks every managed setting.
  void on_driver_back();
  // Restores every baseline, and keeps the claims for the next start.
  void suspend();
  // Accepts no more changes. Waiting ones are still made, until abandon() refuses the rest.
  void close() { closed_ = true; }
  void abandon();

  static constexpr std::size_t kMaxQueuedChanges = limits::kMaxQueuedGpuChanges;
  static constexpr Duration kReconcileDelay = std::chrono::seconds(10);

 private:
  Loop& loop() override { return environment_.loop; }
  const std::string& boot_id() const override { return environment_.boot_id; }
  const DeviceInfo& gpu() const override { return gpu_; }
  void send_command(Command, std::function<void(const CommandReply&)> on_done) override;
  void reconcile_later(SettingKind) override;
  void reset_gpu(bool dry_run, std::function<void(const Result<void>&)> on_done) override;
  void finish(std::optional<ChangeResult>) override;

  bool take_next();
  std::optional<Error> authorization_error(const Command&) const;
  void fail_sent_command(bool changes);
  void on_command_done(const CommandReply&);
  void refuse(const QueuedChange&, Error);

  QueueEnvironment& environment_;
  DeviceInfo gpu_;
  GpuSettings settings_;
  std::deque<QueuedChange> queue_;
  bool closed_ = false;

  std::optional<QueuedChange> current_;  // in progress
  std::vector<SettingClaim> claims_before_;
  std::unique_ptr<ChangeExecutor> executor_;
  TimePoint started_at_;
  CommandRequest command_request_;  // in progress while on_completion_ is set
  bool sent_ = false;               // to the driver-host or the setter
  std::function<void(const CommandReply&)> on_completion_;

  std::set<SettingKind> unreconciled_;
  Subscription reconcile_timer_;
  Subscription start_timer_;
};

// "GPU management task for GPU {index} terminated"
Error terminated_error(const DeviceInfo&);

}  // namespace gpuyard::control
