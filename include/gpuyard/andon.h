/// @file
/// Andon: alerts about what is wrong with GPUs, raised early and in plain words.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpuyard/export.h"
#include "gpuyard/gpu_metrics.h"

namespace gpuyard {
inline namespace v0 {

/// The thresholds of the checks. A check trips when its value reaches or exceeds the threshold. An
/// infinite threshold is never reached.
struct AndonThresholds {
  double thermal_threshold = 80;          ///< core temperature, degrees Celsius
  double memory_threshold = 90;           ///< percent of the device memory
  double power_threshold = 95;            ///< percent of the power limit
  std::uint64_t idle_timeout_secs = 300;  ///< seconds at exactly 0 % utilisation

  /// Equal when every field is.
  friend bool operator==(const AndonThresholds&, const AndonThresholds&) = default;
};

/// A GPU that is so hot that it slows itself down, or soon will.
struct ThermalThrottling {
  std::uint32_t device = 0;  ///< index of the GPU on the node
  double temp = 0;           ///< core temperature, degrees Celsius
  double threshold = 0;      ///< the threshold that was reached

  /// Equal when every field is.
  friend bool operator==(const ThermalThrottling&, const ThermalThrottling&) = default;
};

/// A GPU whose memory is nearly all in use, by any processes.
struct MemoryPressure {
  std::uint32_t device = 0;  ///< index of the GPU on the node
  double used_percent = 0;   ///< used share of the memory
  double threshold = 0;      ///< the threshold that was reached

  /// Equal when every field is.
  friend bool operator==(const MemoryPressure&, const MemoryPressure&) = default;
};

/// A GPU whose power draw is near its power limit.
struct PowerLimitReached {
  std::uint32_t device = 0;  ///< index of the GPU on the node
  double power_percent = 0;  ///< drawn share of its power limit
  double threshold = 0;      ///< the threshold that was reached

  /// Equal when every field is.
  friend bool operator==(const PowerLimitReached&, const PowerLimitReached&) = default;
};

/// A GPU at 0 % utilisation although it is in use, or may be: its work possibly hangs.
struct GpuIdle {
  std::uint32_t device = 0;         ///< index of the GPU on the node
  std::uint64_t duration_secs = 0;  ///< since it was first seen at 0 %
  std::uint64_t timeout_secs = 0;   ///< the threshold that was reached

  /// Equal when every field is.
  friend bool operator==(const GpuIdle&, const GpuIdle&) = default;
};

/// The level of an alert, by its severity.
enum class AlertLevel : std::uint8_t {
  info,      ///< 0 to 39
  warning,   ///< 40 to 59
  error,     ///< 60 to 79
  critical,  ///< 80 and more
};

/// The enumerator's own name, "warning". Lives as long as the library.
GPUYARD_API std::string_view name_of(AlertLevel);

/// The finding of a check: its GPU, its numbers and its severity.
struct Alert {
  /// The kind of alert, with the numbers that led to it.
  std::variant<ThermalThrottling, MemoryPressure, PowerLimitReached, GpuIdle> kind;

  /// Index of the GPU on the node.
  GPUYARD_API std::uint32_t device() const;
  /// The severity, from 0 to 100.
  ///
  /// Heat is 50 and one more for each degree beyond its threshold. Memory is 100 from 99 % on, 80
  /// from 95 % on, else 60. Power is 70 from 100 % on, else 50. An idle GPU is 90 beyond twice its
  /// timeout, 70 beyond one and a half, else 40.
  GPUYARD_API int severity() const;
  /// The level of that severity.
  GPUYARD_API AlertLevel level() const;
  /// For people: "GPU 0: temperature is 87 C, threshold 80 C".
  GPUYARD_API std::string message() const;
  /// For a terminal or a log: "ALERT [severity 57]: " and the message.
  GPUYARD_API std::string line() const;

  /// Equal when the kinds and their fields are.
  friend bool operator==(const Alert&, const Alert&) = default;
};

/// Checks metrics against the thresholds. A missing value trips nothing.
///
/// A GPU is idle while its utilisation is exactly 0. Idle time is measured by the clock, not in
/// checks. It starts over when the GPU does anything, when its utilisation is missing, when
/// `in_use` says that no process uses it, and when it is not among the metrics. Therefore give
/// every check the metrics of all GPUs: collect_metrics().
///
/// A value: copies are independent. One thread at a time.
class GPUYARD_API Andon {
 public:
  /// With the default thresholds, or others.
  explicit Andon(const AndonThresholds& thresholds = {}) : thresholds_(thresholds) {}

  /// The thresholds in use.
  const AndonThresholds& thresholds() const { return thresholds_; }

  /// Returns the alerts of now, GPU by GPU in the order given; for each GPU in the order heat,
  /// memory, power, idleness. Idle times are measured by a clock that runs on while the machine
  /// sleeps and is never set.
  std::vector<Alert> check(std::span<const GpuMetrics> metrics);
  /// The same at a time of the caller's own clock, which must be the same clock in every call. If
  /// that clock is set back, idle times start over.
  std::vector<Alert> check(std::span<const GpuMetrics> metrics, std::chrono::nanoseconds now);

 private:
  struct Idle {
    std::chrono::nanoseconds since{};
    std::chrono::nanoseconds seen{};  // by the last check
  };

  AndonThresholds thresholds_;
  std::map<std::uint32_t, Idle> idle_;  // by index
};

}  // namespace v0
}  // namespace gpuyard
