/// @file
/// The settings of a GPU, their values, and the values that a driver allows.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuyard {
inline namespace v0 {

/// The settings of a GPU. Each is set on its own, and has one value at a time.
enum class SettingKind : std::uint8_t {
  power_limit,    ///< milliwatts
  gpu_clocks,     ///< MHz, the lowest and the highest of the lock; or no lock
  memory_clocks,  ///< the same for the memory
  persistence,    ///< 0 or 1: the driver keeps the GPU initialised while no process uses it
  compute_mode,   ///< NVML's number: 0 default, 2 prohibited, 3 exclusive process
  ecc,            ///< 0 or 1, from the next reset on
};

/// A value of a setting, in the unit of its kind. Both fields are equal, except for clocks.
struct SettingValue {
  std::int64_t lowest = 0;   ///< the value; of clocks the lowest
  std::int64_t highest = 0;  ///< the same value; of clocks the highest

  /// Equal when both are.
  friend bool operator==(const SettingValue&, const SettingValue&) = default;
};

/// One setting of one GPU at one moment, as the driver reports it.
struct SettingState {
  /// The current value. Empty: it cannot be read back, as with locked clocks.
  std::optional<SettingValue> now;
  std::optional<SettingValue> by_default;  ///< the driver's default, if it reports one
  std::optional<SettingValue> allowed;     ///< least and most, if the driver reports them
  /// ECC only: the mode in force until the next reset; `now` is the mode requested last.
  std::optional<SettingValue> until_reset;

  /// Equal when every field is.
  friend bool operator==(const SettingState&, const SettingState&) = default;
};

/// A counter of memory errors.
enum class EccCounter : std::uint8_t {
  since_load,  ///< since the driver was loaded
  lifetime,    ///< over the GPU's life
};

/// The number of processes that may compute on a GPU; the enumerators' numbers are NVML's.
enum class ComputeMode : std::uint8_t {
  shared = 0,             ///< any number of processes: the driver's "default"
  prohibited = 2,         ///< none
  exclusive_process = 3,  ///< one process at a time
};

}  // namespace v0
}  // namespace gpuyard
