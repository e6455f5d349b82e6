// The names of all metrics and of the probes that read them. catalog.h says what each one means;
// this header is all that other code needs to name one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <boost/describe.hpp>

#include "gpuyard/missing.h"

namespace gpuyard {

enum class Metric : std::uint16_t {
#define GPUYARD_METRIC(name, ...) name,
#include "gpu/device/metrics.def"
};
inline constexpr std::array kAllMetrics = {
#define GPUYARD_METRIC(name, ...) Metric::name,
#include "gpu/device/metrics.def"
};
inline constexpr std::size_t kMetricCount = kAllMetrics.size();

// A query of the driver, of one or a few calls, and the rows it fills.
enum class Probe : std::uint8_t {
#define GPUYARD_PROBE(name, tier) name,
#include "gpu/device/metrics.def"
};
inline constexpr std::array kAllProbes = {
#define GPUYARD_PROBE(name, tier) Probe::name,
#include "gpu/device/metrics.def"
};
inline constexpr std::size_t kProbeCount = kAllProbes.size();

class ProbeSet {
 public:
  constexpr ProbeSet() = default;
  constexpr ProbeSet(std::initializer_list<Probe> probes) {
    for (const Probe probe : probes) bits_ |= bit(probe);
  }
  static constexpr ProbeSet all() { return from_bits(kAllBits); }
  static constexpr ProbeSet from_bits(std::uint64_t bits) {
    ProbeSet set;
    set.bits_ = bits & kAllBits;
    return set;
  }

  constexpr bool contains(Probe probe) const { return (bits_ & bit(probe)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint64_t bits() const { return bits_; }

  friend constexpr ProbeSet operator|(ProbeSet a, ProbeSet b) {
    return from_bits(a.bits_ | b.bits_);
  }
  friend constexpr ProbeSet operator-(ProbeSet a, ProbeSet b) {
    return from_bits(a.bits_ & ~b.bits_);
  }
  friend constexpr bool operator==(ProbeSet, ProbeSet) = default;

  // Calls visit(probe) for each member, in the order of the enumeration.
  template <class Visit>
  constexpr void each(Visit&& visit) const {
    for (std::size_t i = 0; i < kProbeCount; ++i) {
      if (contains(static_cast<Probe>(i))) visit(static_cast<Probe>(i));
    }
  }

 private:
  static_assert(kProbeCount < 64);
  static constexpr std::uint64_t kAllBits = (std::uint64_t{1} << kProbeCount) - 1U;
  static constexpr std::uint64_t bit(Probe probe) {
    return std::uint64_t{1} << static_cast<unsigned>(probe);
  }

  std::uint64_t bits_ = 0;
};

// The reason why a value is missing: the public type, described for JSON and the driver-host's
// messages.
BOOST_DESCRIBE_ENUM(MissingReason, not_supported, no_permission, device_lost, driver_gone,
                    timed_out, not_ready, failed)
BOOST_DESCRIBE_STRUCT(Missing, (), (reason, detail))

}  // namespace gpuyard
