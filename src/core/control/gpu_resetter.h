// A reset of one GPU: no other GPU has a command in progress while it lasts.
//
// Thread: io. The loop and the command port outlive the resetter.
#pragma once

#include <cstdint>
#include <functional>

#include "base/clock.h"
#include "base/lifetime.h"
#include "base/loop.h"
#include "base/result.h"
#include "core/control/command_port.h"
#include "gpu/device/device.h"

namespace gpuyard::control {

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
