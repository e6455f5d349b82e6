// The energy that GPUs use between two moments, measured by this process. It reads them at both
// edges, and in between often enough to see peaks and to integrate power for GPUs without a
// counter.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "energy/ledger.h"
#include "library/control.h"
#include "library/monitor.h"
#include "protocol/energy.h"

namespace gpuyard::library {

// The use from the beginning of a window to one moment.
struct EnergyMark {
  protocol::EnergyWindow used;
  std::int64_t estimated_mj = 0;  // the part of `used` that was integrated from power
};

class EnergyWindow {
 public:
  static constexpr Duration kReadEvery = std::chrono::milliseconds(100);
  // A GPU that does not answer within this time is measured up to its last answer.
  static constexpr Duration kReadDeadline = std::chrono::milliseconds(250);

  // The monitor outlives the window. Errors as for energy::Ledger::begin(), and Errc::unavailable
  // if no thread can be started.
  static Result<EnergyWindow> begin(const Monitor&, const energy::WindowWish&,
                                    Duration deadline = kReadDeadline);

  EnergyWindow(EnergyWindow&&) noexcept;
  EnergyWindow& operator=(EnergyWindow&&) noexcept;
  // Waits for a reading that is under way.
  ~EnergyWindow();

  // Returns the use until now. Any thread.
  EnergyMark mark() const;
  protocol::EnergyWindow measure() const { return mark().used; }

 private:
  struct State;
  explicit EnergyWindow(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

// Holds an answer until its caller takes it; the caller may have gone before it comes.

struct PendingReply::Slot {
  // Runs on the GPU's worker.
  void deliver(const CommandReply&);

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<CommandReply> reply;
  bool taken = false;
  bool left = false;  // the caller has gone
};

}  // namespace gpuyard::library
