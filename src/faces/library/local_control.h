// Changes GPUs from this very process, without a daemon, with a queue and a worker for each GPU, as
// the driver-host does. Knows no owner and no claim, and puts nothing back: the daemon does that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/device/backend.h"

namespace gpuyard::library {

// The request that a command belongs to.
struct CommandContext {
  std::string request_id;
  TimePoint received;  // default: now
};

// The pending answer to one command. Dropping it does not cancel the command; the log then says
// that its answer reached no caller. Thread: any, one at a time.
class PendingReply {
 public:
  PendingReply(PendingReply&&) noexcept;
  PendingReply& operator=(PendingReply&&) noexcept;
  ~PendingReply();

  // Returns the answer once; it may be a failure. Errc::timed_out: not answered yet; call again.
  Result<CommandReply> wait(Duration at_most);

 private:
  friend class LocalControl;
  struct SharedState;
  explicit PendingReply(std::shared_ptr<SharedState>);
  void abandon();
  std::shared_ptr<SharedState> state_;
};

// Copies share the workers; the last copy ends them (driver::CommandWorkers::close). GPUs are
// named by their index. Thread: any.
class LocalControl {
 public:
  // Runs on the GPU's worker, or where the LocalControl ends; that GPU waits until it returns.
  using OnReply = std::function<void(const CommandReply&)>;

  // Errors as for Monitor::open().
  static Result<LocalControl> open(const std::shared_ptr<Backend>&, Duration timeout);

  std::uint32_t device_count() const;

  // Errors of the next three, after which nothing is queued: Errc::not_found (no such GPU), busy,
  // unavailable (closed, or the GPU was not opened), device_lost.
  //
  // Success means sent. `on_done` is called once, if there is one.
  Result<void> send_command_nonblocking(std::uint32_t index, Command, CommandContext,
                                        OnReply on_done = nullptr) const;
  // Success means sent.
  Result<PendingReply> send_command(std::uint32_t index, Command, CommandContext) const;
  // Returns the command's own result, its failure as an error; or Errc::timed_out, after which the
  // command may still be carried out.
  Result<CommandReply> send_command_blocking(std::uint32_t index, Command, Duration timeout,
                                             CommandContext) const;

  // Returns milliwatts at this instant; the average over the last second if the driver has none.
  Result<std::int64_t> get_instant_power_mw(std::uint32_t index, Duration timeout) const;

  // See driver::CommandWorkers::close().
  void close() const;

 private:
  struct State;
  explicit LocalControl(std::shared_ptr<State>);
  std::shared_ptr<State> state_;
};

}  // namespace gpuyard::library
