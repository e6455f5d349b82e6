/// @file
/// The driver as it reports about itself.
#pragma once

#include <optional>
#include <string>

namespace gpuyard {
inline namespace v0 {

/// Versions as the driver reports them; empty where it does not. Never invented.
struct DriverInfo {
  std::optional<std::string> driver_version;       ///< "535.104.05"
  std::optional<std::string> cuda_driver_version;  ///< "12.2", the highest CUDA it supports
  std::optional<std::string> nvml_version;         ///< "12.535.104"
  std::string library;                             ///< path of the loaded NVML
  bool simulated = false;                          ///< it is the simulated NVML

  /// Equal when every field is.
  friend bool operator==(const DriverInfo&, const DriverInfo&) = default;
};

}  // namespace v0
}  // namespace gpuyard
