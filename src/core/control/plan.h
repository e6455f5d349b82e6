// How one change of one GPU is carried out: the steps from the first question until it is over.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "control/audit.h"
#include "control/holding.h"
#include "control/pending_change.h"
#include "device/setting.h"

namespace gpuyard::control {

// What control needs of whoever may call the driver. Lives on the io thread.
class Commander {
 public:
  virtual ~Commander() = default;
  // False: there is no driver-host at present, or it is too busy. Else Control::on_reply() hears
  // the answer, or Control::on_host_down() that there is none.
  virtual bool command(const CommandRequest&) = 0;
  // Errc::conflict: processes use it.
  virtual Result<void> may_reset(const DeviceInfo&) = 0;
  // Ends the driver-host, resets the GPU, starts a driver-host again, whose GPUs Control is told.
  // Takes its time; the answer never comes inside the call.
  virtual void reset(const DeviceInfo&, std::function<void(const Result<void>&)> done) = 0;
};

// How a command ended.
struct Heard {
  CommandReply reply;
  // False: the driver-host went down meanwhile; what was to be written may be, or not.
  bool certain = true;

  std::optional<Error> error() const {
    return reply.failure ? std::optional(reply.failure->error()) : std::nullopt;
  }
};

// What a plan may use; the GPU's queue implements it. A callback never runs inside the call it was
// given to, and none runs after the plan is over.
class PlanContext {
 public:
  virtual ~PlanContext() = default;
  virtual Loop& loop() = 0;
  virtual const std::string& boot_id() const = 0;
  virtual const DeviceInfo& gpu() const = 0;
  virtual const Holding* holding(SettingKind) const = 0;

  virtual void command(Command, std::function<void(const Heard&)> then) = 0;
  // To the disk, and then into memory: nothing of it is there if that fails.
  virtual void hold(const Holding&, std::function<void(const Result<void>&)> then) = 0;
  // Into memory at once, and to the disk as soon as it can be: for what has happened already.
  virtual void note(const Holding&, When = When::now) = 0;
  // The same of one that nobody needs any more.
  virtual void forget(SettingKind) = 0;
  // Tries again in a while: see Settle.
  virtual void settle_later(SettingKind) = 0;
  virtual void reset(bool dry_run, std::function<void(const Result<void>&)> then) = 0;
  // The last call: the plan is gone when it returns. Without a change there is nothing to tell.
  virtual void over(std::optional<Change>) = 0;
};

class Plan {
 public:
  virtual ~Plan() = default;
  virtual void begin() = 0;
};

// `order` and the table outlive it.
std::unique_ptr<Plan> make_plan(PlanContext&, const PendingChange&);

// A reset of one GPU: no other GPU has a command under way while it lasts. Lives on the io thread.

class Resetting {
 public:
  using Then = std::function<void(const Result<void>&)>;

  Resetting(Loop& loop, Commander& commander) : loop_(loop), commander_(commander) {}

  // Then nothing else may begin.
  bool under_way() const { return state_ != State::none; }

  // `quiet` says whether no other GPU has a command under way; asked again by go_on(). The answer
  // never comes inside the call.
  void begin(const DeviceInfo&, bool dry_run, std::function<bool()> quiet, Then);
  // Something has ended.
  void go_on();
  // Begins none any more.
  void close() { closed_ = true; }

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
