// A reset of one GPU: no other GPU has a command under way while it lasts. Lives on the io thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "control/hands.h"

namespace gpuyard::control {

class Resetting {
 public:
  using Then = std::function<void(const Result<void>&)>;

  Resetting(Loop& loop, Hands& hands) : loop_(loop), hands_(hands) {}

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
  Hands& hands_;
  State state_ = State::none;
  bool closed_ = false;
  DeviceInfo gpu_;
  std::function<bool()> quiet_;
  Then then_;
  Subscription patience_;
  Subscription soon_;
  std::shared_ptr<Resetting*> self_ = std::make_shared<Resetting*>(this);
};

}  // namespace gpuyard::control
