// The in-process hand: GPUs changed by this very process, without a daemon. A queue and a worker
// for each GPU, as the driver-host has them. It knows no owner, no claim and puts nothing back:
// that is the daemon's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/backend.h"

namespace gpuyard::library {

// Of the request that a command is for.
struct CommandContext {
  std::string request_id;
  TimePoint received;  // at no time: now
};

// The answer to one command, on its way. Whoever drops it has gone: the command is carried out all
// the same, and that nobody wanted to hear of it is logged.
class PendingReply {
 public:
  PendingReply(PendingReply&&) noexcept;
  PendingReply& operator=(PendingReply&&) noexcept;
  ~PendingReply();

  // Errc::timed_out: not yet; ask again. The answer itself may be a failure. Once only.
  Result<CommandReply> wait(Duration at_most);

 private:
  friend class LocalControl;
  struct Slot;
  explicit PendingReply(std::shared_ptr<Slot>);
  void leave();
  std::shared_ptr<Slot> slot_;
};

// Copies share the workers; the last one ends them (driver::Commanders::close). Any thread may call
// anything. GPUs are called by their index.
class LocalControl {
 public:
  // Runs on the GPU's worker, or where the Control is ended: it keeps that GPU waiting.
  using Told = std::function<void(const CommandReply&)>;

  // Errors as of Monitor::open().
  static Result<LocalControl> open(const std::shared_ptr<Backend>&, Duration deadline);

  std::uint32_t device_count() const;

  // The errors of the next three, and then nothing is queued: Errc::not_found (no such GPU), busy,
  // unavailable (closed, or the GPU was not opened), device_lost.
  //
  // Success means sent. Nobody is told, or `told` once.
  Result<void> send_command_nonblocking(std::uint32_t index, Command, CommandContext,
                                        Told told = nullptr) const;
  // Success means sent.
  Result<PendingReply> send_command(std::uint32_t index, Command, CommandContext) const;
  // The command's own result, its failure an error; or Errc::timed_out, after which it may still be
  // carried out.
  Result<CommandReply> send_command_blocking(std::uint32_t index, Command, Duration deadline,
                                             CommandContext) const;

  // Milliwatts at this instant; where the driver gives none, its average over the last second.
  Result<std::int64_t> get_instant_power_mw(std::uint32_t index, Duration deadline) const;

  // See driver::Commanders::close().
  void close() const;

 private:
  struct State;
  explicit LocalControl(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

}  // namespace gpuyard::library
