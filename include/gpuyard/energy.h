/// @file
/// What GPUs use between two moments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// What one GPU used in a window: all of the device, whoever used it.
struct GpuEnergy {
  std::uint32_t index = 0;  ///< on the node, from 0
  std::string uuid;         ///< the key of the GPU
  double joules = 0;        ///< by its counter; or by its power, where it has none
  double seconds = 0;       ///< between the readings at the two edges
  std::optional<double>
      mean_watts;  ///< over the time that is known; empty below half a second of it
  std::optional<double> peak_watts;  ///< the highest reading; there are ten a second
  bool estimated = false;            ///< at least a part is power over time, not counted
  /// The counter started over in between (a reset): the joules are of the parts that are known.
  bool interrupted = false;
  double unknown_seconds = 0;  ///< of which the energy is not, or not wholly, known

  /// Equal when every field is.
  friend bool operator==(const GpuEnergy&, const GpuEnergy&) = default;
};

/// What the GPUs of a window used.
struct EnergyMeasurement {
  double seconds = 0;           ///< since the window began
  double joules = 0;            ///< the sum
  std::vector<GpuEnergy> gpus;  ///< by index

  /// Equal when every field is.
  friend bool operator==(const EnergyMeasurement&, const EnergyMeasurement&) = default;
};

/// Measures from Monitor::begin_energy_window() until end().
///
/// Windows may overlap; each is told all that its GPUs use. Both edges are read from the driver at
/// that moment. In between a thread reads ten times a second. What measures waits 250 ms at most;
/// a GPU that does not answer by then is measured until it last did. It keeps what it needs of its
/// monitor, which may end first. Any thread may call any member function at any time.
class GPUYARD_API EnergyWindow {
 public:
  /// A window that was moved from may only be destroyed or assigned to.
  EnergyWindow(EnergyWindow&&) noexcept;
  /// Ends what was measured before.
  EnergyWindow& operator=(EnergyWindow&&) noexcept;
  /// Stops measuring.
  ~EnergyWindow();

  /// What was used until now, or until it was ended.
  EnergyMeasurement measure() const;
  /// Ends the window, and says what was used in it. Ending it again changes nothing.
  EnergyMeasurement end();

 private:
  friend class Monitor;
  struct State;
  explicit EnergyWindow(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
