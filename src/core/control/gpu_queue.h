// The queue of changes of one GPU. One change is carried out at a time, by a plan, strictly in the
// order in which they came. Lives on the io thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/limits.h"
#include "core/control/change_executor.h"

namespace gpuyard::control {

// The parts that all queues share.
struct QueueEnvironment {
  Loop& loop;
  Commander& commander;
  ControlStorage& archive;
  std::string boot_id;
  std::uint64_t last_command = 0;
  // Asked before each plan begins.
  std::function<bool(const QueuedChange&)> may_begin;
  // Told at the end of each change, also of a refused one. Without a Change there is no result.
  std::function<void(const DeviceInfo&, const QueuedChange&, const std::optional<Change>&,
                     TimePoint began)>
      told_over;
  // Resets a GPU, when no other GPU has a plan under way.
  std::function<void(const DeviceInfo&, bool dry_run, std::function<void(const Result<void>&)>)>
      reset;
};

class GpuQueue final : private ExecutorContext {
 public:
  // The environment outlives its queues.
  GpuQueue(QueueEnvironment& environment, DeviceInfo gpu)
      : environment_(environment), gpu_(std::move(gpu)) {}
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  // Takes over a holding that an earlier daemon kept.
  void adopt(Holding holding) { holdings_[holding.kind] = std::move(holding); }
  const std::map<SettingKind, Holding>& holdings() const { return holdings_; }
  const Holding* holding(SettingKind) const override;
  const DeviceInfo& device() const { return gpu_; }
  void rename(DeviceInfo gpu) { gpu_ = std::move(gpu); }

  // Queues a change. Refuses it at once if kMostWaiting wait already (busy), or if the queue is
  // closed (unavailable).
  void submit(QueuedChange);
  // Queues a job of the daemon itself, unless the same job waits already.
  void take_own(Job);
  // Refuses the waiting changes whose right has ended.
  void drop_lapsed();
  // Begins the next waiting change, if one may begin now.
  void go_on();
  bool idle() const { return plan_ == nullptr; }
  bool empty() const { return idle() && queue_.empty(); }

  void on_reply(const CommandReply&);
  void on_host_down() { lose(false); }
  void on_setter_down() { lose(true); }
  // Tries the settings again that could not be written.
  void on_setter_back();
  // The driver is back, and this GPU is open: checks every setting that is held.
  void on_driver_back();
  // Puts every baseline back, and keeps the claims for the next start.
  void suspend();
  // Accepts no more changes. Waiting ones are still made, until abandon() refuses the rest.
  void close() { closed_ = true; }
  void abandon();

  static constexpr std::size_t kMostWaiting = shares::kChangesOfGpu;
  static constexpr Duration kTryAgain = std::chrono::seconds(10);

 private:
  Loop& loop() override { return environment_.loop; }
  const std::string& boot_id() const override { return environment_.boot_id; }
  const DeviceInfo& gpu() const override { return gpu_; }
  void command(Command, std::function<void(const Heard&)> then) override;
  void hold(const Holding&, std::function<void(const Result<void>&)> then) override;
  void note(const Holding&, When) override;
  void forget(SettingKind) override;
  void settle_later(SettingKind) override;
  void reset(bool dry_run, std::function<void(const Result<void>&)> then) override;
  void over(std::optional<Change>) override;

  std::optional<Error> obstacle(const Command&) const;
  void lose(bool changes);
  void hear(const Heard&);
  void keep(SettingKind, When);
  void keep_later(SettingKind);
  void refuse(const QueuedChange&, Error);
  ControlStorage::Kept in_this_turn(ControlStorage::Kept then);

  QueueEnvironment& environment_;
  DeviceInfo gpu_;
  std::map<SettingKind, Holding> holdings_;
  std::deque<QueuedChange> queue_;
  bool closed_ = false;

  std::optional<QueuedChange> pending_;  // under way
  std::vector<Claim> claims_before_;
  std::unique_ptr<Plan> plan_;
  TimePoint began_;
  std::uint64_t plans_ = 0;
  CommandRequest asked_;  // under way while then_ is set
  bool sent_ = false;     // to the driver-host or the setter
  std::function<void(const Heard&)> then_;

  std::set<SettingKind> unkept_;  // changed in memory, but not yet on the disk
  std::set<SettingKind> unsettled_;
  Subscription keep_timer_;
  Subscription settle_timer_;
  Subscription begin_soon_;
  Lifetime here_;
};

// "GPU management task for GPU {index} terminated"
Error terminated(const DeviceInfo&);

}  // namespace gpuyard::control
