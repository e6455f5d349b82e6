// The energy that GPUs use between two moments, measured by this process. It reads them at both
// edges, and in between often enough to see peaks and to integrate power for GPUs without a
// counter.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/energy/ledger.h"
#include "faces/library/monitor.h"

namespace gpuyard::library {

// The use from the beginning of a window to one moment.
struct EnergyMark {
  energy::WindowResult used;
  std::int64_t estimated_mj = 0;  // the part of `used` that was integrated from power
  Snapshot snapshot;              // of that moment; knows the index of each GPU

  // Returns nullptr for a GPU that is not measured.
  const energy::GpuResult* find(std::string_view uuid) const;
};

class EnergyWindow {
 public:
  static constexpr Duration kReadInterval = std::chrono::milliseconds(100);
  // A GPU that does not answer within this time is measured up to its last answer.
  static constexpr Duration kReadTimeout = std::chrono::milliseconds(250);

  // The monitor outlives the window. Errors as for energy::Ledger::begin(), and Errc::unavailable
  // if no thread can be started.
  static Result<EnergyWindow> begin(const Monitor&, const energy::WindowRequest&,
                                    Duration read_timeout = kReadTimeout);

  EnergyWindow(EnergyWindow&&) noexcept;
  EnergyWindow& operator=(EnergyWindow&&) noexcept;
  // Waits for a reading that is under way.
  ~EnergyWindow();

  // Returns the use until now. Thread: any.
  EnergyMark mark() const;

 private:
  struct State;
  explicit EnergyWindow(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace gpuyard::library
