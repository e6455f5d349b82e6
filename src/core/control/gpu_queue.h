// The queue of changes of one GPU. One change is carried out at a time, by a plan, strictly in the
// order in which they came. Lives on the io thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/shares.h"
#include "control/plan.h"

namespace gpuyard::control {

// What all queues share.
struct QueueEnvironment {
  Loop& loop;
  Commander& commander;
  ControlArchive& archive;
  std::string boot_id;
  std::uint64_t last_command = 0;
  // Asked before each plan begins.
  std::function<bool(const PendingChange&)> may_begin;
  // Told at the end of each, also of what was refused in it; no change: there is nothing to tell.
  std::function<void(const DeviceInfo&, const PendingChange&, const std::optional<Change>&,
                     TimePoint began)>
      told_over;
  // Resets a GPU, when no other GPU has a plan under way.
  std::function<void(const DeviceInfo&, bool dry_run, std::function<void(const Result<void>&)>)>
      reset;
};

class GpuQueue final : private PlanContext {
 public:
  // The environment outlives its queues.
  GpuQueue(QueueEnvironment& environment, DeviceInfo gpu)
      : environment_(environment), gpu_(std::move(gpu)) {}
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  // What was kept of an earlier life of the daemon.
  void adopt(Holding holding) { holdings_[holding.kind] = std::move(holding); }
  const std::map<SettingKind, Holding>& holdings() const { return holdings_; }
  const Holding* holding(SettingKind) const override;
  const DeviceInfo& device() const { return gpu_; }
  void rename(DeviceInfo gpu) { gpu_ = std::move(gpu); }

  // One that is refused is over at once: kMostWaiting wait already (busy), or it is closed
  // (unavailable).
  void submit(PendingChange);
  // Of ourselves; the same again while it waits is the same.
  void take_own(Job);
  // Refuses what waits and has lost its right.
  void drop_lapsed();
  // What waits may begin now.
  void go_on();
  bool idle() const { return plan_ == nullptr; }
  bool empty() const { return idle() && queue_.empty(); }

  void on_reply(const CommandReply&);
  void on_host_down();
  // The driver is there, and this GPU is open: looks after what is held.
  void on_driver_back();
  // Puts every baseline back, keeping what is wanted for the next start.
  void suspend();
  // Takes nothing more. What waits is still done, until abandon() answers the rest.
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
  void hear(const Heard&);
  void keep(SettingKind, When);
  void keep_later(SettingKind);
  void refuse(const PendingChange&, Error);
  ControlArchive::Kept in_this_turn(ControlArchive::Kept then);

  QueueEnvironment& environment_;
  DeviceInfo gpu_;
  std::map<SettingKind, Holding> holdings_;
  std::deque<PendingChange> queue_;
  bool closed_ = false;

  std::optional<PendingChange> pending_;  // under way
  std::vector<Claim> claims_before_;
  std::unique_ptr<Plan> plan_;
  TimePoint began_;
  std::uint64_t plans_ = 0;
  CommandRequest asked_;  // under way, if then_ is set
  bool sent_ = false;     // to a driver-host
  std::function<void(const Heard&)> then_;

  std::set<SettingKind> unkept_;  // changed in memory; the disk did not take it
  std::set<SettingKind> unsettled_;
  Subscription keep_timer_;
  Subscription settle_timer_;
  Subscription begin_soon_;
  Lifetime here_;
};

// "GPU management task for GPU {index} terminated"
Error terminated(const DeviceInfo&);

}  // namespace gpuyard::control
