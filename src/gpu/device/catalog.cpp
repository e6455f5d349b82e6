#include "gpu/device/catalog.h"

#include <algorithm>
#include <array>
#include <string>

namespace gpuyard {
namespace {

constexpr std::array kUnits = {
    UnitInfo{"", 1, 1, "", "", 1},
    UnitInfo{"_percent", 1, 1, "%", "%", 1},
    UnitInfo{"_percent", 1000, 1e-3, "%", "parts of 1", 100'000},
    UnitInfo{"_celsius", 1, 1, "C", "C", 1},
    UnitInfo{"_bytes", 1, 1, "B", "MiB", std::int64_t{1024} * 1024},
    UnitInfo{"_bytes_per_second", 1, 1, "B/s", "KiB/s", 1024},
    UnitInfo{"_w", 1000, 1e-3, "W", "W", 1000},
    UnitInfo{"_j", 1000, 1e-3, "J", "mJ", 1},
    UnitInfo{"_mhz", 1, 1e6, "MHz", "MHz", 1},
    UnitInfo{"_seconds", 1'000'000'000, 1e-9, "s", "ns", 1},
};

constexpr std::array<std::string_view, 8> kLocations = {
    "l1_cache",       "l2_cache",      "device_memory", "register_file",
    "texture_memory", "shared_memory", "cbu",           "sram"};

struct DimensionInfo {
  std::string_view label;
  std::uint16_t extent;
};

constexpr std::array kDimensions = {DimensionInfo{"", 1}, DimensionInfo{"fan", kMaxFans},
                                    DimensionInfo{"link", kMaxLinks},
                                    DimensionInfo{"location", kLocations.size()}};

}  // namespace

const UnitInfo& unit_info(Unit unit) {
  return kUnits[static_cast<std::size_t>(unit)];
}

const MetricRow& row_of(Metric metric) {
  return catalog()[static_cast<std::size_t>(metric)];
}

std::string json_key(const MetricRow& row) {
  return std::string(row.key).append(unit_info(row.unit).json_suffix);
}

std::string_view label_of(Dimension dimension) {
  return kDimensions[static_cast<std::size_t>(dimension)].label;
}

std::string element_of(Dimension dimension, std::uint16_t index) {
  const bool place = dimension == Dimension::location && index < kLocations.size();
  return place ? std::string(kLocations[index]) : std::to_string(index);
}

std::uint16_t extent_of(Dimension dimension) {
  return kDimensions[static_cast<std::size_t>(dimension)].extent;
}

const ProbeRow& row_of(Probe probe) {
  return probes()[static_cast<std::size_t>(probe)];
}

ProbeSet probes_of(Tier tier) {
  ProbeSet set;
  for (const ProbeRow& row : probes()) {
    if (row.tier == tier) set = set | ProbeSet{row.probe};
  }
  return set;
}

ProbeSet probes_for(std::span<const Metric> metrics) {
  ProbeSet set;
  for (const ProbeRow& row : probes()) {
    const bool wanted = std::any_of(metrics.begin(), metrics.end(), [&](Metric metric) {
      return std::find(row.fills.begin(), row.fills.end(), metric) != row.fills.end();
    });
    if (wanted) set = set | ProbeSet{row.probe};
  }
  return set;
}

}  // namespace gpuyard
