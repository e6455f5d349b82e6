// What GPUs use between two moments, measured by this process: they are read at both edges, and in
// between often enough to see peaks and to integrate power where there is no counter.
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

// What was used until a moment.
struct EnergyMark {
  protocol::EnergyWindow used;
  std::int64_t estimated_mj = 0;  // of it, as power over time
};

class EnergyWindow {
 public:
  static constexpr Duration kReadEvery = std::chrono::milliseconds(100);
  // A GPU that does not answer by then is measured until it last did.
  static constexpr Duration kReadDeadline = std::chrono::milliseconds(250);

  // The monitor outlives the window. Errors as of energy::Ledger::begin(), and Errc::unavailable
  // without a thread.
  static Result<EnergyWindow> begin(const Monitor&, const energy::WindowWish&,
                                    Duration deadline = kReadDeadline);

  EnergyWindow(EnergyWindow&&) noexcept;
  EnergyWindow& operator=(EnergyWindow&&) noexcept;
  // Waits for the reading that is under way.
  ~EnergyWindow();

  // Until now. Any thread.
  EnergyMark mark() const;
  protocol::EnergyWindow measure() const { return mark().used; }

 private:
  struct State;
  explicit EnergyWindow(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

// Where an answer waits for whoever asked; nobody may be there any more when it comes.

struct PendingReply::Slot {
  // On the GPU's worker.
  void deliver(const CommandReply&);

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<CommandReply> reply;
  bool taken = false;
  bool left = false;  // nobody waits any more
};

}  // namespace gpuyard::library
