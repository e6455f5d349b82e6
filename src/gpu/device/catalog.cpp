#include "gpu/device/catalog.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
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

// The source of a metric: a probe, or facts already known of a GPU or of the driver.
struct Source {
  constexpr Source(Probe fills) : probe(fills) {}  // NOLINT(google-explicit-constructor)
  constexpr explicit Source(MetricSubject known) : subject(known) {}

  MetricSubject subject = MetricSubject::device;
  std::optional<Probe> probe = {};
};
constexpr Source kIdentity(MetricSubject::device_identity);
constexpr Source kDriver(MetricSubject::driver);

constexpr std::array kEnabledWords = {MetricWord{0, "disabled"}, MetricWord{1, "enabled"}};
constexpr std::array kYesWords = {MetricWord{0, "no"}, MetricWord{1, "yes"}};
// nvmlComputeMode_t; 1 is no longer supported.
constexpr std::array kComputeWords = {MetricWord{0, "default"}, MetricWord{1, "exclusive_thread"},
                                      MetricWord{2, "prohibited"},
                                      MetricWord{3, "exclusive_process"}};
// nvmlDeviceGpuRecoveryAction_t. An IMEX domain is a set of machines whose GPUs share memory.
constexpr std::array kRecoveryWords = {MetricWord{0, "none"},
                                       MetricWord{1, "reset"},
                                       MetricWord{2, "reboot"},
                                       MetricWord{3, "drain_p2p"},
                                       MetricWord{4, "drain_and_reset"},
                                       MetricWord{5, "recover_imex_domain"},
                                       MetricWord{6, "bus_reset"},
                                       MetricWord{7, "system_reboot"}};
// nvmlClocksEventReasons: one bit each. `other` is the driver's own "some other reason" (bit 63),
// and every bit that is newer than this table.
constexpr std::array kThrottleWords = {MetricWord{0x1, "idle"},
                                       MetricWord{0x2, "app_clocks"},
                                       MetricWord{0x4, "sw_power_cap"},
                                       MetricWord{0x8, "hw_slowdown"},
                                       MetricWord{0x10, "sync_boost"},
                                       MetricWord{0x20, "sw_thermal"},
                                       MetricWord{0x40, "hw_thermal"},
                                       MetricWord{0x80, "hw_power_brake"},
                                       MetricWord{0x100, "display_clocks"},
                                       MetricWord{~std::int64_t{0x1FF}, "other"}};

// Returns the bounds of a row that is a plain number of its unit.
constexpr Bounds bounds_of(Unit unit, MetricKind kind) {
  constexpr std::int64_t kYear = std::int64_t{365} * 24 * 3600;
  constexpr std::int64_t kMaxMilliwatts = kMaxBoardWatts * 1000;
  const bool counter = kind == MetricKind::counter;
  switch (unit) {
    case Unit::none:
      return {0, counter ? 1'000'000'000'000 : 1'000'000};
    case Unit::percent:
      return {0, 100};
    case Unit::millipercent:
      return {0, 100'000};
    case Unit::celsius:
      return {-200, 200};  // from cooling with liquid nitrogen to where solder melts
    case Unit::bytes:
      // Traffic of NVLinks passes 2^53 bytes within hours. The board's memory is at most 1 PiB.
      return {0, counter ? 9'000'000'000'000'000'000 : std::int64_t{1} << 50U};
    case Unit::bytes_per_second:
      return {0, 1'000'000'000'000};  // twice the rate of PCIe 8 with 16 lanes
    case Unit::milliwatts:
      return {0, kMaxMilliwatts};
    case Unit::millijoules:
      return {0, kMaxMilliwatts * 20 * kYear};
    case Unit::megahertz:
      return {0, 100'000};
    case Unit::nanoseconds:
      return {0, 100 * kYear * 1'000'000'000};
  }
  return {0, 0};
}

constexpr Bounds bounds_of(Metric metric, Unit unit, MetricKind kind) {
  switch (metric) {
    case Metric::performance_state:
      return {0, 15};  // 32 means unknown
    case Metric::fan_speed:
      return {0, 500};  // an overdriven fan says more than 100
    case Metric::pcie_generation:
    case Metric::pcie_generation_max:
      return {0, 16};
    case Metric::pcie_width:
    case Metric::pcie_width_max:
      return {0, 64};
    default:
      break;
  }
  if (kind == MetricKind::text || kind == MetricKind::flags) return {INT64_MIN, INT64_MAX};
  if (kind == MetricKind::state) return {0, 255};  // a state without a word is newer than its table
  return bounds_of(unit, kind);
}

constexpr MetricRow row(Metric metric, std::string_view key, Source source, Unit unit,
                        MetricKind kind, Dimension dimension, std::string_view prometheus,
                        std::string_view nvidia_smi, std::string_view dcgm, std::string_view help,
                        std::span<const MetricWord> words = {}) {
  return {metric,
          key,
          unit,
          kind,
          source.subject,
          source.probe,
          dimension,
          prometheus,
          nvidia_smi,
          dcgm,
          help,
          words,
          bounds_of(metric, unit, kind)};
}

constexpr std::array kCatalog = {
#define GPUYARD_METRIC(name, source, unit, kind, dimension, ...) \
  row(Metric::name, #name, source, Unit::unit, MetricKind::kind, Dimension::dimension, __VA_ARGS__),
#include "gpu/device/metrics.def"
};

constexpr bool has_bounds(const MetricRow& row) {
  return row.bounds.least > INT64_MIN && row.bounds.most < INT64_MAX &&
         row.bounds.least < row.bounds.most;
}
static_assert(std::ranges::all_of(kCatalog, [](const MetricRow& row) {
  return has_bounds(row) != (row.kind == MetricKind::text || row.kind == MetricKind::flags);
}));

template <Probe probe>
constexpr auto kFills = [] {
  constexpr auto is_filled = [](const MetricRow& row) { return row.probe == probe; };
  std::array<Metric, std::ranges::count_if(kCatalog, is_filled)> metrics{};
  auto next = metrics.begin();
  for (const MetricRow& row : kCatalog) {
    if (is_filled(row)) *next++ = row.metric;
  }
  return metrics;
}();

constexpr std::array kProbes = {
#define GPUYARD_PROBE(name, tier) ProbeRow{Probe::name, #name, Tier::tier, kFills<Probe::name>},
#include "gpu/device/metrics.def"
};

}  // namespace

const UnitInfo& unit_info(Unit unit) {
  return kUnits[static_cast<std::size_t>(unit)];
}

const MetricRow& row_of(Metric metric) {
  return catalog()[static_cast<std::size_t>(metric)];
}

const std::string& json_key(const MetricRow& row) {
  static const auto kKeys = [] {
    std::array<std::string, kMetricCount> keys;
    for (const MetricRow& one : catalog()) {
      keys[static_cast<std::size_t>(one.metric)] =
          std::string(one.key).append(unit_info(one.unit).json_suffix);
    }
    return keys;
  }();
  return kKeys[static_cast<std::size_t>(row.metric)];
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

std::span<const MetricRow> catalog() {
  return kCatalog;
}

std::span<const ProbeRow> probes() {
  return kProbes;
}

}  // namespace gpuyard
