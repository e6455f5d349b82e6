/// @file
/// The energy that GPUs use between two moments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuyard/export.h"

namespace gpuyard {
inline namespace v0 {

/// The energy of one GPU in a window: of the whole device, whichever processes used it.
struct GpuEnergy {
  std::uint32_t index = 0;  ///< on the node, from 0
  std::string uuid;         ///< the key of the GPU
  /// From its counter, or from its power where it has none; empty if nothing of it is known.
  std::optional<double> joules;
  double seconds = 0;  ///< between the readings at the two edges
  std::optional<double>
      mean_watts;  ///< over the time that is known; empty below half a second of it
  std::optional<double> peak_watts;  ///< the highest of ten readings a second
  bool estimated = false;            ///< at least a part is power over time, not from a counter
  /// The counter started over within the window (a reset): `joules` covers the known parts.
  bool interrupted = false;
  double unknown_seconds = 0;  ///< time whose energy is not, or not wholly, known

  /// Equal when every field is.
  friend bool operator==(const GpuEnergy&, const GpuEnergy&) = default;
};

/// The energy of a window's GPUs.
struct EnergyMeasurement {
  double seconds = 0;            ///< since the window began
  std::optional<double> joules;  ///< the sum of those that are known; empty if none is
  std::vector<GpuEnergy> gpus;   ///< by index
  /// `joules` is at least this: of a GPU, or of some of the time, they are not known.
  bool partial = false;

  /// Equal when every field is.
  friend bool operator==(const EnergyMeasurement&, const EnergyMeasurement&) = default;
};

/// Measures from Monitor::begin_energy_window() until end().
///
/// Windows may overlap; each counts all the energy of its GPUs. Both edges are read from the driver
/// at that moment; in between a thread reads ten times a second. Calls that measure wait 250 ms at
/// most; a GPU that does not answer by then is measured up to its last answer. The window stays
/// usable after its monitor has been destroyed. Any thread may call any member function at any
/// time.
class GPUYARD_API EnergyWindow {
 public:
  /// A window that was moved from may only be destroyed or assigned to.
  EnergyWindow(EnergyWindow&&) noexcept;
  /// Ends the window that it held before.
  EnergyWindow& operator=(EnergyWindow&&) noexcept;
  /// Stops measuring.
  ~EnergyWindow();

  /// The energy used until now, or until the window was ended.
  EnergyMeasurement measure() const;
  /// Ends the window and returns the energy used in it. Ending it again changes nothing.
  EnergyMeasurement end();

 private:
  friend class Monitor;
  struct State;
  explicit EnergyWindow(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace gpuyard
