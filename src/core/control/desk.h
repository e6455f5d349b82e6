// The queue of one GPU, and the one order of it whose turn it is. Orders run strictly one after the
// other, in the order in which they came. Lives on the io thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/shares.h"
#include "control/turn.h"

namespace gpuyard::control {

// What all desks share.
struct Office {
  Loop& loop;
  Hands& hands;
  Archive& archive;
  std::string boot_id;
  std::uint64_t last_command = 0;
  // Asked before each turn.
  std::function<bool(const Order&)> may_begin;
  // Told at the end of each, also of what was refused in it; no change: there is nothing to tell.
  std::function<void(const DeviceInfo&, const Order&, const std::optional<Change>&,
                     TimePoint began)>
      told_over;
  // Resets a GPU, when no other has a turn.
  std::function<void(const DeviceInfo&, bool dry_run, std::function<void(const Result<void>&)>)>
      reset;
};

class Desk final : private Table {
 public:
  // The office outlives its desks.
  Desk(Office& office, DeviceInfo gpu) : office_(office), gpu_(std::move(gpu)) {}
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // What was kept of an earlier life of the daemon.
  void adopt(Holding holding) { holdings_[holding.kind] = std::move(holding); }
  const std::map<SettingKind, Holding>& holdings() const { return holdings_; }
  const DeviceInfo& device() const { return gpu_; }
  void rename(DeviceInfo gpu) { gpu_ = std::move(gpu); }

  // One that is refused is over at once: kMostWaiting wait already (busy), or it is closed
  // (unavailable).
  void submit(Order);
  // Of ourselves; the same again while it waits is the same.
  void take_own(Job);
  // Refuses what waits and has lost its right.
  void drop_lapsed();
  // What waits may begin now.
  void go_on();
  bool idle() const { return turn_ == nullptr; }
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
  Loop& loop() override { return office_.loop; }
  const std::string& boot_id() const override { return office_.boot_id; }
  const DeviceInfo& gpu() const override { return gpu_; }
  const Holding* holding(SettingKind) const override;
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
  void keep_later();
  void refuse(const Order&, Error);
  Archive::Kept in_this_turn(Archive::Kept then);

  Office& office_;
  DeviceInfo gpu_;
  std::map<SettingKind, Holding> holdings_;
  std::deque<Order> queue_;
  bool closed_ = false;

  std::optional<Order> order_;  // whose turn it is
  std::vector<Claim> claims_before_;
  std::unique_ptr<Turn> turn_;
  TimePoint began_;
  std::uint64_t turns_ = 0;
  CommandRequest asked_;  // under way, if then_ is set
  bool sent_ = false;     // to a driver-host
  std::function<void(const Heard&)> then_;

  std::set<SettingKind> unkept_;  // changed in memory; the disk did not take it
  std::set<SettingKind> unsettled_;
  Subscription keep_timer_;
  Subscription settle_timer_;
  Subscription begin_soon_;
  std::shared_ptr<Desk*> self_ = std::make_shared<Desk*>(this);
};

// "GPU management task for GPU {index} terminated"
Error terminated(const DeviceInfo&);

}  // namespace gpuyard::control
