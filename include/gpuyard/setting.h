/// @file
/// What can be set of a GPU, its values, and what a driver allows.
#pragma once

#include <cstdint>
#include <optional>

namespace gpuyard {
inline namespace v0 {

/// What can be set of a GPU. Each is set on its own, and has one value at a time.
enum class SettingKind : std::uint8_t {
  power_limit,    ///< milliwatts
  gpu_clocks,     ///< MHz, the lowest and the highest of the lock; or no lock
  memory_clocks,  ///< the same of the memory
  persistence,    ///< 0 or 1: the driver keeps the GPU initialised while nobody uses it
  compute_mode,   ///< NVML's number: 0 default, 2 prohibited, 3 exclusive process
  ecc,            ///< 0 or 1, from the next reset on
};

/// A value of a setting, in the unit that its kind says. The two are the same, but for clocks.
struct SettingValue {
  std::int64_t lowest = 0;   ///< of clocks the lowest
  std::int64_t highest = 0;  ///< of clocks the highest

  /// Equal when both are.
  friend bool operator==(const SettingValue&, const SettingValue&) = default;
};

/// What the driver says of one setting of one GPU at one moment.
struct SettingState {
  /// What it is. Empty: it cannot be read back, as locked clocks cannot.
  std::optional<SettingValue> now;
  std::optional<SettingValue> by_default;  ///< what the driver itself would choose, if it says so
  std::optional<SettingValue> allowed;     ///< the least and the most, if it says so
  /// Of ECC: what it is until the next reset; `now` is what was asked for last.
  std::optional<SettingValue> until_reset;

  /// Equal when every field is.
  friend bool operator==(const SettingState&, const SettingState&) = default;
};

/// Which memory errors: those since the driver was loaded, or those of the GPU's life.
enum class EccCounter : std::uint8_t {
  since_load,  ///< since the driver was loaded
  lifetime,    ///< of the GPU's life
};

/// Who may compute on a GPU; the numbers are NVML's.
enum class ComputeMode : std::uint8_t {
  shared = 0,             ///< any number of processes: the driver's "default"
  prohibited = 2,         ///< none
  exclusive_process = 3,  ///< one process at a time
};

}  // namespace v0
}  // namespace gpuyard
