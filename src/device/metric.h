// The names of everything measurable, and of the driver calls that measure it. What each one means
// is in catalog.h; this header is what the rest of the house needs to mention one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuyard {

enum class Metric : std::uint16_t {
  name,
  uuid,
  pci_address,
  memory_total,
  memory_free,
  memory_used,
  utilization_gpu,
  temperature_core,
  power_draw,
  power_limit,
  energy_total,
  clock_sm,
  driver_version,
  nvml_version,
  cuda_driver_version,
};
inline constexpr std::size_t kMetricCount = 15;

// One driver call and the rows it fills.
enum class Probe : std::uint8_t {
  memory,
  utilization,
  temperature,
  power,
  energy,
  sm_clock,
  power_limit,
};
inline constexpr std::size_t kProbeCount = 7;

class ProbeSet {
 public:
  constexpr ProbeSet() = default;
  constexpr ProbeSet(std::initializer_list<Probe> probes) {
    for (const Probe probe : probes) bits_ |= bit(probe);
  }
  static constexpr ProbeSet from_bits(std::uint32_t bits) {
    ProbeSet set;
    set.bits_ = bits & kAllBits;
    return set;
  }

  constexpr bool contains(Probe probe) const { return (bits_ & bit(probe)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr std::uint32_t bits() const { return bits_; }

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
  static constexpr std::uint32_t kAllBits = (1U << kProbeCount) - 1U;
  static constexpr std::uint32_t bit(Probe probe) { return 1U << static_cast<unsigned>(probe); }

  std::uint32_t bits_ = 0;
};

}  // namespace gpuyard
