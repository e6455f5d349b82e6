// The last minute of one GPU: the samples of its readings, and what they add up to.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>

#include "gpu/device/nvlinks.h"
#include "gpu/device/snapshot.h"

namespace gpuyard::bottleneck {

// Bits of nvmlClocksEventReasons (nvml.h).
inline constexpr std::int64_t kSwPowerCap = 0x4;
// Heat or brake; alone where the driver says no more.
inline constexpr std::int64_t kHwSlowdown = 0x8;
inline constexpr std::int64_t kSwThermal = 0x20;
inline constexpr std::int64_t kHwThermal = 0x40;
inline constexpr std::int64_t kHwPowerBrake = 0x80;

// The length of the window, and the fewest samples that give a result; fewer where the interval
// between them leaves no more than that in half of the window.
inline constexpr Duration kWindow = std::chrono::seconds(60);
inline constexpr std::size_t kMinSamples = 10;

inline constexpr double kHundredPercent = 100;  // percent

// The readings of one snapshot that are needed later.
struct WindowSample {
  TimePoint at;
  std::optional<std::int64_t> flags;
  std::optional<std::int64_t> utilization_percent;
  std::optional<double> power_percent;  // of the limit
  bool slowed = true;                   // its clock is visibly below the highest, or not known
  std::optional<std::int64_t> clock_mhz;
  std::optional<std::int64_t> temperature;
  // The driver's counters of time.
  std::optional<std::int64_t> sw_heat_ns;
  std::optional<std::int64_t> hw_heat_ns;
  std::optional<std::int64_t> brake_ns;
};

class ReadingWindow {
 public:
  using Counter = std::optional<std::int64_t> WindowSample::*;

  // Adds a sample, and evicts what is older than the window. A GPU that does not answer adds none.
  void add(const DeviceState&, const Snapshot&);

  // All results below are empty with too few samples.

  // The percentage of the samples with one of these flags, or of the time that a counter says,
  // whichever is most.
  std::optional<std::int64_t> share_of(std::int64_t flags,
                                       std::initializer_list<Counter> counters = {}) const;
  // The percentage of the samples with a slowdown of which the GPU does not report the reason.
  std::optional<std::int64_t> unexplained_slowdown_share() const;
  // The mean clock over the samples with one of these flags; nothing if there is none.
  std::optional<std::int64_t> mean_clock(std::int64_t flags) const;
  std::optional<std::int64_t> max_temperature() const;  // the highest temperature of all samples
  std::optional<double> mean_utilization() const;
  // The mean share of the power limit, if the GPU was always busy for half a minute and always at
  // no more than `max_percent`.
  std::optional<double> busy_power_percent(double max_percent, TimePoint now) const;

  std::optional<TimePoint> idle_since() const { return idle_since_; }
  // The idle time before a lease is not the holder's.
  void restart_idle() { idle_since_.reset(); }
  // Returns what the last sample shows of its NVLinks; empty: not known.
  const std::optional<LostNvlinks>& nvlinks() const { return nvlinks_; }
  // Returns when it was first found not to answer, or lost.
  std::optional<TimePoint> unresponsive_since() const { return unresponsive_since_; }

  // "38% of the last minute"; says so if less than a minute is known. REQUIRES: samples.
  std::string share_text(std::int64_t share) const;

 private:
  std::optional<std::int64_t> counter_share(Counter) const;
  // Returns the share of the samples with flags for which `Is` is true, in percent.
  template <class Is>
  std::optional<std::int64_t> share_where(Is is) const;

  std::deque<WindowSample> samples_;
  std::size_t min_samples_ = kMinSamples;
  std::optional<TimePoint> idle_since_;
  std::optional<TimePoint> unresponsive_since_;
  NvlinkTracker nvlink_tracker_;
  std::optional<LostNvlinks> nvlinks_;
};

}  // namespace gpuyard::bottleneck
